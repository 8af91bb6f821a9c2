"""Sends requests to the API, and repeats requests that may be repeated."""

# Made from angelia_client/aio by `make client`: change it there.

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any, Final

import httpx

from angelia_client.errors import ClientError, UnreachableError
from angelia_client.requests import Answer, Request, headers_in_utf8, without_password
from angelia_client.retries import Retries

CONNECT_TIMEOUT: Final = timedelta(seconds=3)


class Sender:
    """Sends requests to the API at `url`, by an HTTP client that the caller opens and closes."""

    def __init__(
        self,
        http: httpx.Client,
        url: str,
        *,
        api_key: str | None,
        timeout: timedelta,
        retries: Retries,
    ) -> None:
        self._http = http
        self.url = url.rstrip("/")
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._timeout = timeout
        self._retries = retries

    def send(self, request: Request) -> Answer:
        """Send a request, and return the response.

        Raises:
            ClientError: There is no response, or the response is an error.
        """
        for attempt in count(1):
            try:
                return self._once(request)
            except ClientError as error:
                delay = self._retries.delay_after(error, attempt=attempt)
                if delay is None or not request.repeatable:
                    raise
            time.sleep(delay.total_seconds())
        raise AssertionError("attempts are counted without an end")

    def json(self, request: Request) -> Any:  # noqa: ANN401 - JSON can have any type
        """Send a request, and return the JSON of the response."""
        return (self.send(request)).json()

    def listed(self, request: Request) -> Iterator[Any]:
        """Yield each item of a list. Each page of the list is requested only when it is needed."""
        page: Request | None = request
        while page is not None:
            answer = self.send(page)
            yield from answer.listed()
            page = replace(request, path=answer.next) if answer.next else None

    def _once(self, request: Request) -> Answer:
        try:
            response = self._http.request(
                request.method,
                f"{self.url}{request.path}",
                content=request.body,
                headers=headers_in_utf8({**self._headers, **request.headers}),
                timeout=self._patience(request),
            )
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            why = str(exc) or type(exc).__name__
            where = without_password(self.url)
            raise UnreachableError(f"No API answers at {where} ({why})") from exc
        answer = _answer(response)
        if not response.is_success:
            raise answer.refusal()
        return answer

    def _patience(self, request: Request) -> httpx.Timeout:
        most = (self._timeout + request.patience).total_seconds()
        connect = min(most, CONNECT_TIMEOUT.total_seconds())
        return httpx.Timeout(most, connect=connect)


def _answer(response: httpx.Response) -> Answer:
    return Answer(
        status=response.status_code,
        headers=response.headers,
        body=response.content,
        next=response.links.get("next", {}).get("url"),
    )

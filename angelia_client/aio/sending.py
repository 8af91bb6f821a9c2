"""Sends requests to the API, and repeats requests that may be repeated."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any, Final

import httpx

from angelia_client.errors import ClientError, UnreachableError
from angelia_client.requests import Answer, Request, headers_in_utf8, without_password
from angelia_client.retries import Retries

CONNECT_TIMEOUT: Final = timedelta(seconds=3)


class AsyncSender:
    """Sends requests to the API at `url`, by an HTTP client that the caller opens and closes."""

    def __init__(
        self,
        http: httpx.AsyncClient,
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

    async def send(self, request: Request) -> Answer:
        """Send a request, and return the response.

        Raises:
            ClientError: There is no response, or the response is an error.
        """
        for attempt in count(1):
            try:
                return await self._once(request)
            except ClientError as error:
                delay = self._retries.delay_after(error, attempt=attempt)
                if delay is None or not request.repeatable:
                    raise
            await asyncio.sleep(delay.total_seconds())
        raise AssertionError("attempts are counted without an end")

    async def json(self, request: Request) -> Any:  # noqa: ANN401 - JSON can have any type
        """Send a request, and return the JSON of the response."""
        return (await self.send(request)).json()

    async def listed(self, request: Request) -> AsyncIterator[Any]:
        """Yield each item of a list. Each page of the list is requested only when it is needed."""
        page: Request | None = request
        while page is not None:
            answer = await self.send(page)
            for item in answer.listed():
                yield item
            page = replace(request, path=answer.next) if answer.next else None

    async def _once(self, request: Request) -> Answer:
        try:
            response = await self._http.request(
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

"""The REST API as the commands use it: one method for each call, JSON in and out."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from app.cli.credentials import api_key
from app.cli.errors import RefusedError, UnreachableError
from app.domain.errors import FieldProblem

# A publish waits for the log; a suspend waits up to 2 s for the workers.
_TIMEOUT: Final = httpx.Timeout(15.0, connect=3.0)
_PAGE: Final = 100
_HOW_TO_GET_IN: Final = (
    "Give a key by ANGELIA_API_KEY; who has the database makes one: angelia keys create."
)

Json = dict[str, Any]


class Api:
    """The API at one address; enter it with `async with Api.at(url)`.

    Every method raises UnreachableError when nothing answers, and RefusedError when the answer is
    an error.
    """

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    @classmethod
    @asynccontextmanager
    async def at(cls, url: str) -> AsyncIterator[Self]:
        """The API at `url` (`http://host:port`), with connections of its own.

        The API key of the command goes with every request.
        """
        key = api_key()
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        # The API is addressed directly: a proxy of the environment would never reach a loopback.
        async with httpx.AsyncClient(
            base_url=url, timeout=_TIMEOUT, trust_env=False, headers=headers
        ) as http:
            yield cls(http)

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return str(self._http.base_url).rstrip("/")

    async def readiness(self) -> tuple[bool, str]:
        """Whether it can take messages now, and its own words about that; never raises."""
        try:
            answer = await self._http.get("/status/ready")
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            return False, str(exc) or type(exc).__name__
        return answer.is_success, answer.text

    async def topics(self) -> list[str]:
        """Names of all topics."""
        return list(await self._json("GET", "/topics"))

    async def topic(self, name: str) -> Json:
        """One topic."""
        return dict(await self._json("GET", _topic(name)))

    async def topic_exists(self, name: str) -> bool:
        """Whether there is such a topic."""
        return await self._exists(_topic(name), "TOPIC_NOT_EXISTS")

    async def create_topic(self, topic: Json) -> None:
        """Create a topic, as in the API's topic body."""
        await self._call("POST", "/topics", content=json.dumps(topic))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; it must have no subscriptions."""
        await self._call("DELETE", _topic(name))

    async def topic_metrics(self, name: str) -> Json:
        """Counts and rates of a topic."""
        return dict(await self._json("GET", f"{_topic(name)}/metrics"))

    async def subscriptions(self, topic: str) -> list[str]:
        """Names of a topic's subscriptions."""
        return list(await self._json("GET", f"{_topic(topic)}/subscriptions"))

    async def subscription(self, topic: str, name: str) -> Json:
        """One subscription."""
        return dict(await self._json("GET", _subscription(topic, name)))

    async def subscription_exists(self, topic: str, name: str) -> bool:
        """Whether the topic has such a subscription."""
        return await self._exists(_subscription(topic, name), "SUBSCRIPTION_NOT_EXISTS")

    async def create_subscription(self, topic: str, subscription: Json) -> None:
        """Subscribe, as in the API's subscription body."""
        await self._call("POST", f"{_topic(topic)}/subscriptions", content=json.dumps(subscription))

    async def change_subscription(self, topic: str, name: str, patch: Json) -> None:
        """Change the fields that are in `patch`."""
        await self._call("PUT", _subscription(topic, name), content=json.dumps(patch))

    async def set_state(self, topic: str, name: str, state: str) -> None:
        """`SUSPENDED` or `ACTIVE`."""
        await self._call("PUT", f"{_subscription(topic, name)}/state", content=json.dumps(state))

    async def delete_subscription(self, topic: str, name: str) -> None:
        """Unsubscribe."""
        await self._call("DELETE", _subscription(topic, name))

    async def signing_secrets(self, topic: str, name: str) -> list[Json]:
        """What a subscription's deliveries are signed with, masked."""
        return list(await self._json("GET", f"{_subscription(topic, name)}/secrets"))

    async def create_signing_secret(self, topic: str, name: str, secret: Json) -> Json:
        """Sign with another secret, as in the API's body for it; the secret itself is answered."""
        path = f"{_subscription(topic, name)}/secrets"
        return dict((await self._call("POST", path, content=json.dumps(secret))).json())

    async def delete_signing_secret(self, topic: str, name: str, secret_id: str) -> None:
        """Sign with it no more."""
        path = f"{_subscription(topic, name)}/secrets/{quote(secret_id, safe='')}"
        await self._call("DELETE", path)

    async def subscription_metrics(self, topic: str, name: str) -> Json:
        """Counts and rates of a subscription."""
        return dict(await self._json("GET", f"{_subscription(topic, name)}/metrics"))

    async def publish(
        self, topic: str, body: bytes, *, key: str | None = None, own_id: str | None = None
    ) -> str:
        """Publish `body` as it is; the id the message got: `own_id`, or one of the service's."""
        given = {"Partition-Key": key, "Idempotency-Key": own_id}
        headers = {name: value for name, value in given.items() if value is not None}
        answer = await self._call("POST", _topic(topic), content=body, headers=headers)
        return str(answer.headers.get("Hermes-Message-Id", ""))

    async def undelivered(self, topic: str, name: str, *, limit: int | None = None) -> list[Json]:
        """Discarded messages with body and reason, newest first: `limit` of them, or all."""
        found: list[Json] = []
        address: str | None = f"{_subscription(topic, name)}/undelivered?limit={_PAGE}"
        while address and (limit is None or len(found) < limit):
            answer = await self._call("GET", address)
            found += answer.json()
            address = answer.links.get("next", {}).get("url")
        return found[:limit]

    async def trace(
        self, message_id: str, *, topic: str | None = None, subscription: str | None = None
    ) -> list[Json]:
        """What happened to a message, oldest first: anywhere, in a topic, at a subscription."""
        where = "" if topic is None else _topic(topic)
        if topic is not None and subscription is not None:
            where = _subscription(topic, subscription)
        return list(await self._json("GET", f"{where}/events/{quote(message_id, safe='')}/trace"))

    async def create_key(self, body: Json) -> Json:
        """Make an API key; the answer alone has it."""
        return dict(await self._json("POST", "/keys", content=json.dumps(body)))

    async def keys(self) -> list[Json]:
        """All API keys."""
        found: list[Json] = []
        address: str | None = "/keys?limit=1000"
        while address:
            answer = await self._call("GET", address)
            found += answer.json()
            address = answer.links.get("next", {}).get("url")
        return found

    async def revoke_key(self, key_id: str) -> None:
        """Let an API key open nothing any more."""
        await self._call("DELETE", f"/keys/{quote(key_id, safe='')}")

    async def _exists(self, path: str, code: str) -> bool:
        try:
            await self._call("GET", path)
        except RefusedError as exc:
            if exc.code == code:
                return False
            raise
        return True

    async def _json(self, method: str, path: str, *, content: str | None = None) -> Any:  # noqa: ANN401 - whatever JSON is there
        answer = await self._call(method, path, content=content)
        try:
            return answer.json()
        except ValueError as exc:
            raise RefusedError(
                answer.status_code, "", f"{self.url}{path} did not answer with JSON"
            ) from exc

    async def _call(
        self,
        method: str,
        path: str,
        *,
        content: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        content_type = {} if content is None else {"Content-Type": "application/json"}
        try:
            answer = await self._http.request(
                method, path, content=content, headers={**content_type, **(headers or {})}
            )
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise UnreachableError(
                f"No API answers at {self.url} ({str(exc) or type(exc).__name__})",
                hint="Start one with `angelia up`, or name its address with --api.",
            ) from exc
        if not answer.is_success:
            raise _refused(answer)
        return answer


def _topic(name: str) -> str:
    return f"/topics/{quote(name, safe='')}"


def _subscription(topic: str, name: str) -> str:
    return f"{_topic(topic)}/subscriptions/{quote(name, safe='')}"


def _refused(answer: httpx.Response) -> RefusedError:
    try:
        body = answer.json()
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    details = [
        FieldProblem(path=str(each.get("path", "")), message=str(each.get("message", "")))
        for each in body.get("details") or ()
    ]
    refused = RefusedError(
        answer.status_code, str(body.get("code", "")), str(body.get("message", "")), details=details
    )
    if refused.status == HTTPStatus.UNAUTHORIZED:
        refused.hint = _HOW_TO_GET_IN
    return refused

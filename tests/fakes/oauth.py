"""OAuth providers for tests: one in memory, and one on a real HTTP server."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

from app.domain.catalogue.oauth import OAuthPolicy, OAuthProvider
from tests.fakes.subscriber import PATIENCE_S, Received, Reply, Subscriber
from workers.transport.answer import RawAnswer
from workers.transport.dialer import ConnectionOrigin

POLICY = OAuthPolicy(provider_name="login", scope="orders.write")


def a_provider(
    url: str = "http://login.test/",
    **settings: Any,  # noqa: ANN401 - of a provider
) -> OAuthProvider:
    given: dict[str, Any] = {
        "name": "login",
        "token_endpoint": f"{url}token",
        "client_id": "angelia",
        "client_secret": "s3cr3t",
        "initial_delay": timedelta(milliseconds=200),
        "delay_max": timedelta(seconds=2),
        "request_timeout": timedelta(seconds=5),
    }
    return OAuthProvider(**(given | settings))


def issued(token: str, expires_in: object = None) -> bytes:
    lifetime = {} if expires_in is None else {"expires_in": expires_in}
    return json.dumps({"access_token": token, "token_type": "Bearer"} | lifetime).encode()


class Answers:
    """A transport for token requests.

    Each request waits until the test calls `answer` or `fail`.
    """

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.waiting: list[asyncio.Future[RawAnswer]] = []
        self._asked = asyncio.Event()

    async def exchange(
        self, origin: ConnectionOrigin, payload: bytes, *, total_s: float
    ) -> RawAnswer:
        del origin, total_s
        self.requests.append(payload)
        answer: asyncio.Future[RawAnswer] = asyncio.get_running_loop().create_future()
        self.waiting.append(answer)
        self._asked.set()
        return await answer

    async def asked(self) -> None:
        """Wait until there is a request to answer."""
        await self._asked.wait()

    def answer(
        self, body: bytes, status: int = 200, *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer the request that has waited longest."""
        raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        self._next().set_result(RawAnswer(status, raw, body, truncated=False))

    def fail(self, error: Exception) -> None:
        self._next().set_exception(error)

    def _next(self) -> asyncio.Future[RawAnswer]:
        waiting = self.waiting.pop(0)
        if not self.waiting:
            self._asked.clear()
        return waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A request for a token, as the server received it."""

    form: Mapping[str, str]
    headers: Mapping[str, str]
    at: float


@dataclass(slots=True, kw_only=True)
class Login:
    """A real server that issues the tokens `token-1`, `token-2`, …, and knows which are valid.

    If `reply` returns an answer, the server sends it instead of a token. A token is valid for
    `leeway` seconds longer than the server says: a request may take a while to arrive.
    """

    expires_in: float | None = None
    leeway: float = 0.0
    delay: float = 0.0
    reply: Callable[[TokenRequest], Reply | None] = lambda _: None
    requests: list[TokenRequest] = field(default_factory=list)
    revoked: set[str] = field(default_factory=set)
    issued: dict[str, float] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _server: Subscriber | None = None

    async def __aenter__(self) -> Self:
        self._server = await self._stack.enter_async_context(Subscriber(self._answer))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    @property
    def server(self) -> Subscriber:
        assert self._server is not None, "it has not been entered"
        return self._server

    def provider(self, **settings: Any) -> OAuthProvider:  # noqa: ANN401 - of a provider
        return a_provider(self.server.url, **settings)

    async def asked(self, times: int, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the server has been asked for `times` tokens."""
        await self.server.wait_for(times, timeout_s)

    def accepts(self, received: Received) -> bool:
        """Whether a request has a token that is valid now."""
        scheme, _, token = received.headers.get("authorization", "").partition(" ")
        ends = self.issued.get(token, 0.0)
        return scheme == "Bearer" and token not in self.revoked and received.at < ends

    def guarded(self, reply: Reply | None = None) -> Callable[[Received], Reply]:
        """Return the behaviour of a subscriber that refuses requests without a valid token."""
        good = reply or Reply()
        return lambda received: good if self.accepts(received) else Reply(status=401)

    def revoke(self) -> None:
        """Make all tokens invalid that were issued so far."""
        self.revoked |= self.issued.keys()

    def _answer(self, received: Received) -> Reply:
        form = dict(parse_qsl(received.body.decode()))
        request = TokenRequest(form=form, headers=received.headers, at=received.at)
        self.requests.append(request)
        return self.reply(request) or self._issue(received.at)

    def _issue(self, at: float) -> Reply:
        token = f"token-{len(self.issued) + 1}"
        lifetime = float("inf") if self.expires_in is None else self.expires_in
        self.issued[token] = at + self.delay + lifetime + self.leeway
        return Reply(body=issued(token, self.expires_in), delay=self.delay)

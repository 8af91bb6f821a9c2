"""The access token of all connections of a process, for OAUTHBEARER (KIP-255)."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import Final, Protocol, Self

import structlog
from kafka.net.sasl.oauth import AbstractTokenProvider

from app.log.deadlines import CallDeadline
from app.log.kafka.refusals import RefusedError, of_token
from app.token_answers import Issued, TokenRequestError

REQUEST_TIMEOUT: Final = timedelta(seconds=2)
# The part of a token's lifetime, from 0 to 1, after which the next token is requested. So there is
# a new token before sessions with the old token must be renewed.
RENEWED_AFTER: Final = 0.8
# The assumed lifetime of a token if its issuer does not say how long it is valid.
LIFETIME_UNKNOWN_S: Final = 300.0
# The shortest and the longest pause after a failed request. After each further failure, the pause
# doubles.
PAUSE_MIN_S: Final = 1.0
PAUSE_MAX_S: Final = 30.0
# If a broker refuses the current token, a new token is requested at the earliest so many seconds
# after the last request.
REPLACED_AFTER_S: Final = 10.0

_log = structlog.get_logger(__name__)


class AccessTokenSource(Protocol):
    """The source of access tokens: requests them from an issuer, or signs them."""

    async def request(self) -> Issued:
        """Return a new token.

        Raises:
            TokenRequestError: There is no token; the error names what to check.
        """


class AccessTokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka has no types
    """The newest token of a source. From the first use on, the token is renewed before it ends.

    There is one request at a time. While requests fail, the last token is used until it ends.
    Create this object on the event loop, and use it within its `async with` block.
    """

    def __init__(
        self, source: AccessTokenSource, *, origin: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Create an `AccessTokens`. `origin` is a text for people: where the tokens come from."""
        super().__init__()
        self._source = source
        self._origin = origin
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._patience = CallDeadline(REQUEST_TIMEOUT)
        self._stack = AsyncExitStack()
        self._tasks = asyncio.TaskGroup()
        self._renewing: asyncio.Task[None] | None = None
        self._waiting: list[Callable[[], object]] = []
        self._unwanted = asyncio.Event()
        self._issued: Issued | None = None
        self._requested_at = self._ends_at = float("-inf")
        self._problem = ""
        self._pause_s = 0.0

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._tasks)
        self._stack.callback(self._stop)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def token(self) -> str:
        """Return the token without waiting. Callable from any thread.

        Raises:
            RefusedError: There is no access token; the error has the reason.
        """
        issued = self._issued
        if issued is None or self._clock() >= self._ends_at:
            raise RefusedError(of_token(self._origin, self._problem or "it has not answered yet"))
        return issued.token

    async def ready(self) -> None:
        """Wait until there is a token, or until a request for one has failed."""
        known: asyncio.Future[None] = self._loop.create_future()
        self.notify(lambda: None if known.done() else known.set_result(None))
        await known

    def notify(self, wake: Callable[[], object]) -> None:
        """Call `wake` when there is a token, or when a request for one has failed."""
        if self._renewing is None:
            self._renewing = self._tasks.create_task(self._renew())
        if self._problem or self._clock() < self._ends_at:
            wake()
        else:
            self._waiting.append(wake)

    def notify_from_thread(self, wake: Callable[[], object]) -> None:
        """Call `wake` on the event loop, as `notify` does. Call this on another thread."""
        self._loop.call_soon_threadsafe(self.notify, wake)

    def refused(self) -> None:
        """Request another token, because a broker refused the current token.

        If the last request was only a short time ago, nothing is requested.
        """
        # After failures, the pause between requests is longer. This pause also counts here, because
        # each connection whose login is refused calls this method.
        pause_s = max(REPLACED_AFTER_S, self._pause_s)
        if self._clock() - self._requested_at >= pause_s:
            self._unwanted.set()

    def refused_from_thread(self) -> None:
        """Do the same as `refused`. Call this on another thread."""
        self._loop.call_soon_threadsafe(self.refused)

    async def _renew(self) -> None:
        while True:
            self._unwanted.clear()
            pause_s = await self._request()
            self._wake()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._unwanted.wait()

    async def _request(self) -> float:
        """Request a token; return in how many seconds to request the next one."""
        begun = self._requested_at = self._clock()
        try:
            with self._patience.limit():
                return self._take(await self._source.request(), begun)
        except TimeoutError:
            limit = f"{REQUEST_TIMEOUT.total_seconds():g} s"
            return self._failed(f"it does not answer within {limit}")
        except TokenRequestError as error:
            return self._failed(error.reason)
        except Exception:  # noqa: BLE001 - the next request may succeed
            _log.exception("kafka_token_request_broke")
            return self._failed("an internal error")

    def _take(self, issued: Issued, begun: float) -> float:
        lifetime_s = issued.lifetime_s or LIFETIME_UNKNOWN_S
        self._issued, self._ends_at = issued, begun + lifetime_s
        self._problem, self._pause_s = "", 0.0
        return begun + lifetime_s * RENEWED_AFTER - self._clock()

    def _failed(self, reason: str) -> float:
        self._problem = reason
        self._pause_s = min(max(PAUSE_MIN_S, self._pause_s * 2), PAUSE_MAX_S)
        _log.warning("kafka_token_not_issued", origin=self._origin, reason=reason)
        return self._pause_s

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def _stop(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        self._problem = self._problem or "the log is closed"
        self._wake()

"""A destination that sends an access token with each request."""

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from typing import Final, Protocol

from app.domain.delivery import Delivered, Discarded, Outcome, Retry, status_reason
from app.domain.message import Message
from workers.delivery.in_flight import ResponseListener, StartedRequest
from workers.delivery.oauth.bearer import Bearer
from workers.delivery.oauth.token import AccessToken

# The longest pause before a message is tried again while there is no token. It is short, because
# the provider may recover at any time.
QUIET_MAX: Final = timedelta(seconds=5)
# The longest time that an attempt waits for a token. It is so short that the attempt, with its
# request, ends before the worker stops waiting for it when a cursor is closed
# (`workers.assignment.supervisor.closing_timeout`).
TOKEN_TIMEOUT_MAX: Final = timedelta(seconds=2)

Header = tuple[bytes, bytes]


class Authorizable(Protocol):
    """A destination that sends a given Authorization header."""

    def begin(
        self,
        message: Message,
        retry_count: int,
        listener: ResponseListener,
        *,
        authorization: Header | None = None,
    ) -> StartedRequest | None:
        """Start an attempt if it does not have to wait. Return None if nothing was started."""

    async def attempt(
        self, message: Message, *, retry_count: int, authorization: Header | None = None
    ) -> Outcome:
        """Send one POST within one deadline.

        Errors of the subscriber or network are outcomes; they are not raised.
        """


class AuthorizedDestination:
    """Adds tokens of `bearer` to the requests of `inner`.

    An attempt waits up to `token_timeout` for a token. Without a token, it sends nothing and fails.

    The first 401 for a message counts as a failed attempt if another token is possible. The next
    401 for the same message is judged like any other response. A missing token and the first 401 do
    not count against the subscriber's health.
    """

    __slots__ = ("_inner", "_token_timeout_s", "bearer")

    def __init__(self, inner: Authorizable, bearer: Bearer, *, token_timeout: timedelta) -> None:
        self._inner = inner
        self.bearer = bearer
        self._token_timeout_s = token_timeout.total_seconds()

    def begin(
        self, message: Message, retry_count: int, listener: ResponseListener
    ) -> StartedRequest | None:
        """Start an attempt if it does not have to wait. `listener` gets the outcome later.

        Returns:
            None if nothing was started; then await `attempt`.
        """
        token = self.bearer.usable(time.monotonic())
        if token is None:
            return None
        return self._inner.begin(
            message,
            retry_count,
            _ResponseListener(self, message, token, listener=listener),
            authorization=token.header,
        )

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        """POST `message` once with a token, and judge the response."""
        token = self.bearer.usable(time.monotonic()) or await self._awaited()
        if token is None:
            return self._no_token()
        outcome = await self._inner.attempt(
            message, retry_count=retry_count, authorization=token.header
        )
        return self.judged(outcome, message, token)

    def judged(self, outcome: Outcome, message: Message, token: AccessToken) -> Outcome:
        """Return the outcome of a `message` that was sent with `token`."""
        if outcome.status == HTTPStatus.UNAUTHORIZED and not isinstance(outcome, Delivered):
            if self.bearer.refused(token, message, time.monotonic()):
                return _with_new_token(outcome)
        elif outcome.status is not None:
            self.bearer.accepted(token, message)
        return outcome

    async def _awaited(self) -> AccessToken | None:
        """Wait for the requested token. Return None if no token comes within the time limit."""
        source = self.bearer.source
        if source.requesting_since is None:
            return None
        try:
            async with asyncio.timeout(self._token_timeout_s):
                await source.settled()
        except TimeoutError:
            return None
        return self.bearer.usable(time.monotonic())

    def _no_token(self) -> Retry:
        """Return a retry for an attempt that sent nothing, because there is no token."""
        source = self.bearer.source
        again = timedelta(seconds=max(0.0, source.paused_until - time.monotonic()))
        problem = source.problem or "it has not answered yet"
        return Retry(
            reason=f"No access token from the OAuth provider {source.provider.name}: {problem}",
            retry_after=min(again, QUIET_MAX),
            blameless=True,
        )


def _with_new_token(outcome: Retry | Discarded) -> Retry:
    """Return the retry after a 401. It keeps what the other addresses of a broadcast answered."""
    reason = f"{status_reason(HTTPStatus.UNAUTHORIZED)}, to be sent with a new token"
    if isinstance(outcome, Retry):
        return replace(outcome, reason=reason, blameless=True)
    return Retry(
        reason=reason,
        status=outcome.status,
        blameless=True,
        answer=outcome.answer,
        progress=outcome.progress,
    )


class _ResponseListener:
    """Receives the outcome of an attempt with a token, judges it, and passes it to a listener."""

    __slots__ = ("_destination", "_listener", "_message", "_token")

    def __init__(
        self,
        destination: AuthorizedDestination,
        message: Message,
        token: AccessToken,
        *,
        listener: ResponseListener,
    ) -> None:
        self._destination = destination
        self._message = message
        self._token = token
        self._listener = listener

    def on_response(self, outcome: Outcome) -> None:
        """Called with the outcome when the attempt has ended."""
        self._listener.on_response(self._destination.judged(outcome, self._message, self._token))

    def on_defect(self, error: Exception) -> None:
        """Called when the attempt has ended, and its outcome is unknown."""
        self._listener.on_defect(error)

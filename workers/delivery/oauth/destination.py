"""A destination for requests with an access token."""

import asyncio
import time
from datetime import timedelta
from http import HTTPStatus
from typing import Final, Protocol

from app.domain.delivery import Delivered, Outcome, Retry, status_reason
from app.domain.message import Message
from workers.delivery.in_flight import ResponseListener, StartedRequest
from workers.delivery.oauth.bearer import Bearer
from workers.delivery.oauth.token import AccessToken

# While there is no token, its subscription tries again after this at the latest: the provider may
# be back long before the next request to it.
QUIET_MAX: Final = timedelta(seconds=5)
# An attempt waits no longer for a token: with what its request may take, it is over before anybody
# the wait for it to end is given up (`workers.assignment.supervisor.closing_timeout`).
TOKEN_TIMEOUT_MAX: Final = timedelta(seconds=2)

Header = tuple[bytes, bytes]


class Authorizable(Protocol):
    """Where messages go, with a header of the sender's choice."""

    def begin(
        self,
        message: Message,
        retry_count: int,
        listener: ResponseListener,
        *,
        authorization: Header | None = None,
    ) -> StartedRequest | None:
        """Attempt it if that takes no waiting; None: nothing was done."""

    async def attempt(
        self, message: Message, *, retry_count: int, authorization: Header | None = None
    ) -> Outcome:
        """One POST within one deadline; never raises for what a subscriber or a network does."""


class AuthorizedDestination:
    """`inner`, with tokens of `bearer`; while there is none an attempt fails, and sends nothing.

    It waits `token_timeout` for one that was requested. A 401 is an attempt that failed, once for
    each message, as long as another token can be had; then it is judged like any other answer. The
    subscriber is to blame for neither.
    """

    __slots__ = ("_inner", "_token_timeout_s", "bearer")

    def __init__(self, inner: Authorizable, bearer: Bearer, *, token_timeout: timedelta) -> None:
        self._inner = inner
        self.bearer = bearer
        self._token_timeout_s = token_timeout.total_seconds()

    def begin(
        self, message: Message, retry_count: int, listener: ResponseListener
    ) -> StartedRequest | None:
        """Attempt it if that takes no waiting; None: nothing was done, and it is to be awaited.

        `listener` gets the outcome later.
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
        """POST `message` once with a token, and judge the answer."""
        token = self.bearer.usable(time.monotonic()) or await self._awaited()
        if token is None:
            return self._no_token()
        outcome = await self._inner.attempt(
            message, retry_count=retry_count, authorization=token.header
        )
        return self.judged(outcome, message, token)

    def judged(self, outcome: Outcome, message: Message, token: AccessToken) -> Outcome:
        """What `outcome` means once it is known that `message` was sent with `token`."""
        if outcome.status == HTTPStatus.UNAUTHORIZED and not isinstance(outcome, Delivered):
            if self.bearer.refused(token, message, time.monotonic()):
                reason = f"{status_reason(HTTPStatus.UNAUTHORIZED)}, to be sent with a new token"
                return Retry(
                    reason=reason,
                    status=outcome.status,
                    blameless=True,
                    progress=outcome.progress,
                )
        elif outcome.status is not None:
            self.bearer.accepted(token, message)
        return outcome

    async def _awaited(self) -> AccessToken | None:
        """The token that was requested, if it comes in time."""
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
        """Nothing was sent, and nothing is before there may be a token."""
        source = self.bearer.source
        again = timedelta(seconds=max(0.0, source.paused_until - time.monotonic()))
        problem = source.problem or "it has not answered yet"
        return Retry(
            reason=f"No access token from the OAuth provider {source.provider.name}: {problem}",
            retry_after=min(again, QUIET_MAX),
            blameless=True,
        )


class _ResponseListener:
    """Hears first what came of an attempt with a token."""

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
        """It is over, and this is what came of it."""
        self._listener.on_response(self._destination.judged(outcome, self._message, self._token))

    def on_defect(self, error: Exception) -> None:
        """It is over, and its outcome is not known."""
        self._listener.on_defect(error)

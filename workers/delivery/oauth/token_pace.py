"""A pace that also waits for tokens: what is let out then leaves at once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from app.domain.status import Output
from workers.delivery.oauth.bearer import Bearer
from workers.delivery.pace import EndedRequest, Pacing

# A waiting consumer is woken when a token is there; it looks again after this in any case.
LOOK_AGAIN_S: Final = 1.0


class TokenPace:
    """As `pace`, but nothing leaves while a first token, or another one, is on its way.

    Requests are counted against the rate when they leave the consumer: if they waited for a token
    behind it, all of them would reach the subscriber in the moment in which it comes. When there is
    none to be had, attempts are let out, and fail. `wake` is called when it is time to ask again.
    """

    def __init__(self, pace: Pacing, bearer: Bearer, wake: Callable[[], object]) -> None:
        self._pace = pace
        self._bearer = bearer
        self._wake = wake

    @property
    def cautious(self) -> bool:
        """As the pace."""
        return self._pace.cautious

    @property
    def reads_ahead(self) -> bool:
        """As the pace."""
        return self._pace.reads_ahead

    def wait(self, now: float) -> float:
        """Seconds until the next request may leave; 0.0 when it may now."""
        return self._pace.wait(now) or self._token_wait(now)

    def sent(self, now: float) -> int:
        """Count a request that leaves; returns its epoch, for `learn`."""
        return self._pace.sent(now)

    def learn(self, ended: EndedRequest, now: float) -> bool:
        """Learn from a request that is over; whether it was decided anew on the next ones."""
        return self._pace.learn(ended, now)

    def output(self, now: float) -> Output:
        """What leaves at most, and why."""
        output, source = self._pace.output(now), self._bearer.source
        if not source.problem or self._bearer.has_token(now):
            return output
        reason = f"no access token from the OAuth provider {source.provider.name}"
        return replace(output, rate=0.0, reason=f"{reason}: {source.problem}")

    def _token_wait(self, now: float) -> float:
        if self._bearer.usable(now) is not None:
            return 0.0
        source = self._bearer.source
        since = source.requesting_since
        # Not for longer than an answer may take, however many wait for their turn.
        if since is None or now >= since + source.provider.timeout.total_seconds():
            return 0.0
        source.notify(self._wake)
        return LOOK_AGAIN_S

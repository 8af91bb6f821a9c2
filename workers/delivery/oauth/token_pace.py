"""A pace that also waits for tokens.

When this pace allows a request, the request need not wait for a token.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from app.domain.status import Output
from workers.delivery.oauth.bearer import Bearer
from workers.delivery.pace import EndedRequest, Pacing

# The time in seconds after which a waiting consumer checks again for a token. Usually it is woken
# earlier, when a token arrives.
LOOK_AGAIN_S: Final = 1.0


class TokenPace:
    """Sends nothing while a first or new token is requested. Otherwise it sends as `pace` allows.

    Requests are counted against the rate when they leave the consumer. If counted requests waited
    for a token, all of them would reach the subscriber at once when the token arrives. If no token
    is available, attempts are started and fail. `wake` is called when it is time to check again.
    """

    def __init__(self, pace: Pacing, bearer: Bearer, wake: Callable[[], object]) -> None:
        self._pace = pace
        self._bearer = bearer
        self._wake = wake

    @property
    def cautious(self) -> bool:
        """Whether the subscriber was down, as `pace` says."""
        return self._pace.cautious

    @property
    def reads_ahead(self) -> bool:
        """Whether messages may be filtered before they may be sent, as `pace` says."""
        return self._pace.reads_ahead

    @property
    def next_probe(self) -> float | None:
        """When the next message may be tried, as `pace` says."""
        return self._pace.next_probe

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may be sent; 0.0 if one may be sent now."""
        return self._pace.wait(now) or self._token_wait(now)

    def sent(self, now: float) -> int:
        """Count a request that is sent. Return the number for its `EndedRequest.epoch`."""
        return self._pace.sent(now)

    def learn(self, ended: EndedRequest, now: float) -> bool:
        """Learn from an ended request; return whether more or fewer requests may now be sent."""
        return self._pace.learn(ended, now)

    def output(self, now: float) -> Output:
        """Return how much may be sent now, and what limits it."""
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
        # Wait for a token request at most as long as the provider's timeout allows, even if the
        # request is still in a queue.
        if since is None or now >= since + source.provider.timeout.total_seconds():
            return 0.0
        source.notify(self._wake)
        return LOOK_AGAIN_S

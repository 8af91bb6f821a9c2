"""Decides when a request is repeated (pure)."""

from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus

from angelia_client.errors import ClientError, RefusedError, UnreachableError


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often, and after what time, a failed request is repeated.

    A request is repeated if there was no response, or if its status is 408 or 5xx. The defaults are
    those of Hermes' client: three times, after 100, 200 and 300 ms.

    Attributes:
        count: How often a request is repeated.
        delay: The time before the first repetition. The time doubles before each further
            repetition.
        delay_max: The longest time before a repetition.
        retry_after_max: The longest time in `Retry-After` of a response that the client waits for.
    """

    count: int = 3
    delay: timedelta = timedelta(milliseconds=100)
    delay_max: timedelta = timedelta(milliseconds=300)
    retry_after_max: timedelta = timedelta(seconds=5)

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("count must be at least 0")

    def delay_after(self, error: ClientError, *, attempt: int) -> timedelta | None:
        """Return the time to wait after the failed `attempt`, counted from 1.

        None means that the request must not be repeated.
        """
        if attempt > self.count or not _may_pass(error):
            return None
        # The delay doubles at most ten times. Ten times are enough: the delay is then about a
        # thousand times as long, which is more than any sensible maximum.
        backoff = min(self.delay * (1 << min(attempt - 1, 10)), self.delay_max)
        requested = error.retry_after if isinstance(error, RefusedError) else None
        return max(backoff, min(requested or timedelta(0), self.retry_after_max))


NO_RETRIES = Retries(count=0)


def _may_pass(error: ClientError) -> bool:
    if isinstance(error, RefusedError):
        server = HTTPStatus.INTERNAL_SERVER_ERROR
        return error.status >= server or error.status == HTTPStatus.REQUEST_TIMEOUT
    return isinstance(error, UnreachableError)

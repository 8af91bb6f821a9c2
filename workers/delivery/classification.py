"""What an attempt's answer means for the message."""

from datetime import datetime, timedelta
from functools import lru_cache
from http import HTTPStatus

from app.domain.catalogue.subscription import Subscription
from app.domain.circuit import ErrorType
from app.domain.delivery import (
    GONE,
    Answer,
    Answered,
    Delivered,
    Discarded,
    Outcome,
    Retry,
    Unanswered,
    status_reason,
)
from workers.delivery.retry_after import retry_after


def classify(answer: Answer, subscription: Subscription, now: datetime) -> Outcome:
    """What becomes of the message; `now` (aware) is when the answer came, for Retry-After dates.

    2xx is a delivery. A client error is final unless the subscription retries it, except 429,
    which asks for patience; 410 asks for no more messages. Everything else is tried again: 3xx
    (never followed), 5xx, no answer; never earlier than the answer's Retry-After asks. Where
    nothing may be sent to, nothing is tried again.
    """
    if isinstance(answer, Unanswered):
        return _unanswered(answer)
    status = answer.status
    if 200 <= status < 300:  # noqa: PLR2004 - the 2xx class
        return delivered(status)
    if status == HTTPStatus.GONE and subscription.suspend_on_gone:
        return Discarded(reason=status_reason(status), status=status, suspension=GONE)
    if _is_final(status, subscription):
        return Discarded(reason=status_reason(status), status=status)
    delay = requested_delay(answer, now)
    return Retry(reason=status_reason(status), status=status, retry_after=delay)


def requested_delay(answer: Answered, now: datetime) -> timedelta | None:
    """For how long the subscriber is to get nothing, if it asks for that."""
    return retry_after(answer.headers.get("retry-after", ""), now)


def _unanswered(answer: Unanswered) -> Outcome:
    if answer.refused:
        return Discarded(reason=answer.reason)
    error = ErrorType.TIMEOUT if answer.timed_out else ErrorType.CONNECTION
    return Retry(reason=answer.reason, error=error)


def _is_final(status: int, subscription: Subscription) -> bool:
    if status == HTTPStatus.TOO_MANY_REQUESTS or not 400 <= status < 500:  # noqa: PLR2004 - the 4xx class
        return False
    return not subscription.policy.retry_client_errors and (
        status not in subscription.retryable_codes
    )


@lru_cache(maxsize=100)
def delivered(status: int) -> Delivered:
    """The outcome of a 2xx: one for each status."""
    return Delivered(status=status)

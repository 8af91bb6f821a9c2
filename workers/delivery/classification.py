"""What a response means for its message."""

from datetime import datetime, timedelta
from functools import lru_cache
from http import HTTPStatus

from app.domain.answer_excerpt import answer_excerpt
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
    """Return the outcome for the message.

    A 2xx is a delivery. After a 4xx the message is discarded, unless the subscription retries 4xx
    responses. A 429 is retried, and a 410 means that the subscriber wants no more messages.
    Everything else is retried: 3xx (never followed), 5xx, and no response. A retry is never sent
    earlier than Retry-After allows. If the address is forbidden, the message is discarded.

    Args:
        answer: The response, or the error if there is none.
        subscription: The subscription with its retry settings.
        now: When the response came, with time zone. It is needed for dates in Retry-After.
    """
    if isinstance(answer, Unanswered):
        return _unanswered(answer)
    status = answer.status
    if 200 <= status < 300:  # noqa: PLR2004 - the range of 2xx statuses
        return delivered(status)
    reason, shown = status_reason(status), answer_excerpt(answer.body)
    if status == HTTPStatus.GONE and subscription.suspend_on_gone:
        return Discarded(reason=reason, status=status, suspension=GONE, answer=shown)
    if _is_final(status, subscription):
        return Discarded(reason=reason, status=status, answer=shown)
    delay = requested_delay(answer, now)
    return Retry(reason=reason, status=status, retry_after=delay, answer=shown)


def requested_delay(answer: Answered, now: datetime) -> timedelta | None:
    """Return for how long the response asks for no more requests; None if it does not ask."""
    return retry_after(answer.headers.get("retry-after", ""), now)


def _unanswered(answer: Unanswered) -> Outcome:
    if answer.refused:
        return Discarded(reason=answer.reason)
    error = ErrorType.TIMEOUT if answer.timed_out else ErrorType.CONNECTION
    return Retry(reason=answer.reason, error=error)


def _is_final(status: int, subscription: Subscription) -> bool:
    if status == HTTPStatus.TOO_MANY_REQUESTS or not 400 <= status < 500:  # noqa: PLR2004 - the range of 4xx statuses
        return False
    return not subscription.policy.retry_client_errors and (
        status not in subscription.retryable_codes
    )


@lru_cache(maxsize=100)
def delivered(status: int) -> Delivered:
    """Return the outcome of a 2xx response. Equal statuses get the same object, to save time."""
    return Delivered(status=status)

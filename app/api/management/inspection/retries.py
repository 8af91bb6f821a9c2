"""`…/retries`: the messages of a subscription that failed last, and are still retried."""

from typing import Self

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from app.api.access import requires
from app.api.bodies.base import Schema
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import answers, errors
from app.api.lazy_route import LazyRoute
from app.api.management.discards.undelivered_bodies import epoch_ms
from app.api.media import answer
from app.domain.access.keys import Role
from app.domain.status import FailedAttempt

router = APIRouter(tags=["undelivered"], route_class=LazyRoute)


class RetryRead(Schema):
    """A message whose last attempt failed, and that is still retried."""

    message_id: str
    timestamp: int = Field(description="of the last attempt, ms since the epoch")
    attempts: int
    reason: str
    status_code: int | None = Field(default=None, description="the subscriber's last answer")
    answer: str | None = Field(default=None, description="the start of its body, if it is text")

    @classmethod
    def of(cls, failed: FailedAttempt) -> Self:
        """Return the failed attempt as the API shows it."""
        return cls(
            message_id=failed.message_id,
            timestamp=epoch_ms(failed.at),
            attempts=failed.attempts,
            reason=failed.reason,
            status_code=failed.status,
            answer=failed.answer or None,
        )


@router.get(
    "/topics/{topic}/subscriptions/{name}/retries",
    dependencies=[requires(Role.READER)],
    responses=answers(RetryRead, many=True) | errors(400, 404),
)
async def list_retries(topic: TopicName, name: SubscriptionName, services: ServicesOf) -> Response:
    """Return messages that failed last and are still retried, up to three of each worker."""
    retried = await services.metrics.retried(topic, name)
    return answer([RetryRead.of(each).answered() for each in retried])

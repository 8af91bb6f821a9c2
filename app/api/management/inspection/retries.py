"""`…/retries`: the messages of a subscription that failed last, and are still retried."""

from fastapi import APIRouter
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import answers, errors
from app.api.lazy_route import LazyRoute
from app.api.management.discards.undelivered_bodies import epoch_ms
from app.api.management.inspection.trace_bodies import TraceRead
from app.api.media import answer
from app.domain.access.keys import Role
from app.domain.trace import TraceStatus

router = APIRouter(tags=["undelivered"], route_class=LazyRoute)


@router.get(
    "/topics/{topic}/subscriptions/{name}/retries",
    dependencies=[requires(Role.READER)],
    responses=answers(TraceRead, many=True) | errors(400, 404),
)
async def list_retries(topic: TopicName, name: SubscriptionName, services: ServicesOf) -> Response:
    """Return messages that failed last and are still retried, up to three of each worker."""
    return answer(
        [
            TraceRead(
                message_id=each.message_id,
                timestamp=epoch_ms(each.at),
                topic_name=topic,
                subscription=name,
                status=TraceStatus.FAILED,
                reason=each.reason,
                attempt=each.attempts,
                status_code=each.status,
                answer=each.answer or None,
            ).answered()
            for each in await services.metrics.retried(topic, name)
        ]
    )

"""`/topics/{topic}/subscriptions/{name}/ping`."""

from fastapi import APIRouter
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import answers, errors
from app.api.lazy_route import LazyRoute
from app.api.management.inspection.ping_bodies import PingRead
from app.api.media import answer
from app.domain.access.keys import Role
from app.domain.errors import NoWorkerError, PingTooSoonError

router = APIRouter(
    prefix="/topics/{topic}/subscriptions/{name}", tags=["subscriptions"], route_class=LazyRoute
)


@router.post(
    "/ping",
    # Declare `writes=False`, because a ping changes nothing in Angelia.
    dependencies=[requires(Role.SUBSCRIPTION_OWNER, writes=False)],
    responses=answers(PingRead) | errors(400, 404, PingTooSoonError, NoWorkerError),
)
async def ping_subscription(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """Send a test message to the endpoint now, in the form of a delivery, and return its response.

    The test message is not stored in the topic. It is not retried, recorded or counted. A suspended
    subscription gets it too.
    """
    return answer(PingRead.of(await services.pings.ping(topic, name)))

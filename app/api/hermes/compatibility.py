"""Hermes' routes for several data centres and external tools, with Angelia's answers.

Angelia has one data centre. So data centres cannot differ from each other. Only the log of the data
centre can differ from the database. There are no dashboards and no tracking tools to link to.
"""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import GroupName, ServicesOf, SubscriptionName, TopicName
from app.api.documented import Responses, answers, errors, names_listed
from app.api.lazy_route import LazyRoute
from app.api.media import answer
from app.domain.access.keys import Role
from app.domain.catalogue.operations import require_cluster
from app.domain.errors import (
    ClusterNotFoundError,
    ImplementationAbsentError,
    LogUnavailableError,
    TopicNotFoundError,
)

router = APIRouter(tags=["operations"], route_class=LazyRoute)

_NONE: Final[Responses] = {
    200: {
        "description": "None",
        "content": {"application/json": {"schema": {"type": "array", "maxItems": 0}}},
    }
}
_PRIMARY: Final = Query(alias="primaryDatacenter", description="`primary`, the only data centre")

Primary = Annotated[str | None, _PRIMARY]


@router.get(
    "/consistency/groups",
    dependencies=[requires(Role.ADMIN)],
    responses=names_listed() | errors(),
)
async def groups_to_compare(services: ServicesOf) -> Response:
    """Return all groups, by name."""
    return answer(list(await services.groups.names()))


@router.get(
    "/consistency/inconsistencies/groups",
    dependencies=[requires(Role.ADMIN)],
    responses=_NONE | errors(),
)
async def inconsistent_groups(
    groupNames: Annotated[  # noqa: N803 - the parameter has Hermes' name
        list[str] | None, Query(description="names of groups")
    ] = None,
) -> Response:
    """Return groups that differ between data centres: none, because there is only one."""
    del groupNames
    return answer([])


@router.get(
    "/consistency/inconsistencies/topics",
    dependencies=[requires(Role.ADMIN)],
    responses=names_listed() | errors(400, LogUnavailableError),
)
async def inconsistent_topics(
    services: ServicesOf,
    only: Annotated[
        Literal["log", "database"] | None, Query(description="topics that only this one has")
    ] = None,
) -> Response:
    """Return topics that only the log has, and topics that only the database has, each by name.

    The reason is a creation or deletion that the log did not confirm in time. DELETE removes a
    topic that only the log has. `POST /consistency/sync/topics/{topic}` creates a topic that only
    the database has.
    """
    found = await services.consistency.topics()
    match only:
        case "log":
            return answer(list(found.only_in_log))
        case "database":
            return answer(list(found.only_in_database))
        case None:
            return answer([*found.only_in_log, *found.only_in_database])


@router.delete(
    "/consistency/inconsistencies/topics",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(None) | errors(400, TopicNotFoundError, LogUnavailableError),
)
async def delete_inconsistent_topic(
    services: ServicesOf,
    *,
    topicName: Annotated[str, Query(min_length=1, description="the topic")],  # noqa: N803 - the parameter has Hermes' name
    onceAdopted: Annotated[  # noqa: N803 - parameters in URLs have Hermes' form
        bool, Query(description="delete the topic even if it was adopted")
    ] = False,
) -> Response:
    """Delete a topic that only the log has, with its messages.

    A topic that was adopted and then deleted here is refused without `onceAdopted=true`. Angelia
    does not know other foreign topics in Kafka. So find out first who writes to the topic.
    """
    await services.consistency.remove(topicName, once_adopted=onceAdopted)
    return answer()


@router.post(
    "/consistency/sync/groups/{group}",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(None) | errors(404, ClusterNotFoundError),
)
async def sync_group(group: GroupName, services: ServicesOf, primary: Primary = None) -> Response:
    """Do nothing: an existing group is consistent."""
    _require_primary(primary)
    await services.groups.require(group)
    return answer()


@router.post(
    "/consistency/sync/topics/{topic}",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(None) | errors(404, ClusterNotFoundError, LogUnavailableError),
)
async def sync_topic(topic: TopicName, services: ServicesOf, primary: Primary = None) -> Response:
    """Create the topic in the log if only the database has it; otherwise do nothing."""
    _require_primary(primary)
    await services.consistency.restore(topic)
    return answer()


@router.post(
    "/consistency/sync/topics/{topic}/subscriptions/{name}",
    dependencies=[requires(Role.ADMIN)],
    responses=answers(None) | errors(400, 404, ClusterNotFoundError),
)
async def sync_subscription(
    topic: TopicName, name: SubscriptionName, *, services: ServicesOf, primary: Primary = None
) -> Response:
    """Do nothing: an existing subscription is consistent."""
    _require_primary(primary)
    await services.subscriptions.get(topic, name)
    return answer()


@router.get(
    "/topics/{topic}/offline-clients-source",
    dependencies=[requires(Role.ANY)],
    status_code=404,
    responses=errors(404, ImplementationAbsentError),
)
async def offline_clients(topic: TopicName, services: ServicesOf) -> Response:
    """Return readers of a topic's offline storage: none are known."""
    await services.topics.get(topic)
    raise ImplementationAbsentError("Readers of offline storage are not listed here")


@router.get(
    "/dashboards/topics/{topic}",
    dependencies=[requires(Role.ANY)],
    status_code=404,
    responses=errors(404, ImplementationAbsentError),
)
async def topic_dashboard(topic: TopicName, services: ServicesOf) -> Response:
    """Return a topic's dashboard: there is none."""
    await services.topics.get(topic)
    raise ImplementationAbsentError("Dashboards are not configured here")


@router.get(
    "/dashboards/topics/{topic}/subscriptions/{name}",
    dependencies=[requires(Role.ANY)],
    status_code=404,
    responses=errors(400, 404, ImplementationAbsentError),
)
async def subscription_dashboard(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """Return a subscription's dashboard: there is none."""
    await services.subscriptions.get(topic, name)
    raise ImplementationAbsentError("Dashboards are not configured here")


@router.get(
    "/tracking-urls/topics/{topic}",
    dependencies=[requires(Role.ANY)],
    responses=_NONE | errors(404),
)
async def topic_tracking_urls(topic: TopicName, services: ServicesOf) -> Response:
    """Return other tools that show a topic's traces: there are none."""
    await services.topics.get(topic)
    return answer([])


@router.get(
    "/tracking-urls/topics/{topic}/subscriptions/{name}",
    dependencies=[requires(Role.ANY)],
    responses=_NONE | errors(400, 404),
)
async def subscription_tracking_urls(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """Return other tools that show a subscription's traces: there are none."""
    await services.subscriptions.get(topic, name)
    return answer([])


def _require_primary(name: str | None) -> None:
    if name is not None:
        require_cluster(name)

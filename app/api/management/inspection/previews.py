"""`…/preview` and `…/consumer-groups`: messages of a topic, and the positions of subscriptions."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf, SubscriptionName, TopicName
from app.api.documented import Responses, answers, errors
from app.api.lazy_route import LazyRoute
from app.api.management.inspection.preview_bodies import (
    ConsumerGroupRead,
    PreviewRead,
    consumer_group_read,
    preview_read,
)
from app.api.media import answer
from app.domain.access.keys import Role
from app.domain.catalogue.operations import require_cluster
from app.domain.errors import (
    ClusterNotFoundError,
    LogUnavailableError,
    OffsetNotFoundError,
    PartitionNotFoundError,
)
from app.domain.message import Partition

router = APIRouter(tags=["messages"], route_class=LazyRoute)

# The maximum number of digits of an offset.
_DIGITS_MAX = 18
# This header stops browsers from showing the response as a web page.
_AS_IT_IS = {"X-Content-Type-Options": "nosniff"}


def _whole(media: str) -> Responses:
    schema = {"type": "string", "format": "binary"}
    return {200: {"description": "The message as it is", "content": {media: {"schema": schema}}}}


@router.get(
    "/topics/{topic}/preview",
    dependencies=[requires(Role.READER)],
    responses=answers(PreviewRead, many=True) | errors(404, LogUnavailableError),
)
async def preview(topic: TopicName, services: ServicesOf) -> Response:
    """Return the last three messages, the newest first, each up to 10 KiB."""
    found = await services.previews.newest(topic)
    return answer([preview_read(message).answered() for message in found])


@router.get(
    "/topics/{topic}/preview/{index}",
    dependencies=[requires(Role.READER)],
    responses=_whole("application/octet-stream")
    | errors(404, OffsetNotFoundError, LogUnavailableError),
)
async def preview_of_one(
    topic: TopicName,
    index: Annotated[str, Path(description="position in the list, from 0", examples=["0"])],
    services: ServicesOf,
) -> Response:
    """Return one of the last three messages, complete."""
    found = await services.previews.newest(topic)
    position = _number(index)
    if position is None or position >= len(found):
        raise OffsetNotFoundError(f"Topic {topic} has no message {index} to preview")
    body = found[position].body or b""
    return Response(body, 200, _AS_IT_IS, "application/octet-stream")


@router.get(
    "/topics/{topic}/preview/cluster/{cluster}/partition/{partition}/offset/{offset}",
    dependencies=[requires(Role.READER)],
    responses=_whole("text/plain")
    | errors(
        404, ClusterNotFoundError, PartitionNotFoundError, OffsetNotFoundError, LogUnavailableError
    ),
)
async def message_at(
    topic: TopicName,
    cluster: Annotated[str, Path(description="the only cluster", examples=["primary"])],
    *,
    partition: Annotated[str, Path(description="index of the partition")],
    offset: Annotated[str, Path(description="offset in the partition")],
    services: ServicesOf,
) -> Response:
    """Return the message at a position in the log, as it was published."""
    require_cluster(cluster)
    index, position = _number(partition), _number(offset)
    if index is None:
        raise PartitionNotFoundError(f"Partition {partition} does not exist")
    if position is None:
        raise OffsetNotFoundError(f"There is no message at {partition}/{offset}")
    message = await services.previews.at(Partition(topic, index), position)
    return Response(message.body or b"", 200, _AS_IT_IS, "text/plain")


@router.get(
    "/topics/{topic}/subscriptions/{name}/consumer-groups",
    dependencies=[requires(Role.ANY)],
    responses=answers(ConsumerGroupRead, many=True) | errors(400, 404, LogUnavailableError),
)
async def consumer_groups(
    topic: TopicName, name: SubscriptionName, services: ServicesOf
) -> Response:
    """Return the offsets, the lag and the worker of each partition, as a list with one group."""
    group = await services.consumer_groups.of(topic, name)
    return answer([consumer_group_read(group).answered()])


def _number(text: str) -> int | None:
    """Parse a number that consists of digits.

    Return None for other texts, and for numbers larger than any offset.
    """
    fits = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if fits else None

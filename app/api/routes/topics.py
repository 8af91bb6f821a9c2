"""`/topics` and `/topics/{topic}`; publishing to the same path is `app.api.publish`."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.dependencies import ServicesOf, TopicName
from app.api.documented import IGNORED_HEADER, answers, errors, takes
from app.api.media import AnswerNotes, answer, json_request
from app.api.schemas.metrics import TopicMetricsRead
from app.api.schemas.topic import (
    TopicBody,
    TopicRead,
    changed_topic,
    ignored_in_topic,
    new_topic,
    topic_read,
)

router = APIRouter(prefix="/topics", tags=["topics"])


@router.get("", responses=answers(None) | errors())
async def list_topics(
    services: ServicesOf,
    groupName: str | None = None,  # noqa: N803 - Hermes' name
) -> list[str]:
    """All topics, or those of one group, by qualified name."""
    return list(await services.topics.names(group=groupName))


@router.post(
    "",
    status_code=201,
    responses=answers(TopicRead, status=201, headers=IGNORED_HEADER) | errors(400, 413, 415),
    openapi_extra=takes(TopicBody, {"name": "shop.orders"}),
)
async def create_topic(request: Request, services: ServicesOf) -> Response:
    """Create a topic, with its group if that does not exist."""
    asked = await json_request(request)
    topic = await services.topics.create(new_topic(asked.body, strict=asked.strict))
    notes = AnswerNotes(
        ignored=ignored_in_topic(asked.body), extra={"Location": f"/topics/{topic.name}"}
    )
    return answer(topic_read(topic), 201, notes)


@router.get("/{topic}", responses=answers(TopicRead) | errors(404))
async def get_topic(topic: TopicName, services: ServicesOf) -> Response:
    """One topic."""
    return answer(topic_read(await services.topics.get(topic)))


@router.put(
    "/{topic}",
    responses=answers(TopicRead, headers=IGNORED_HEADER) | errors(400, 404, 413, 415),
    openapi_extra=takes(TopicBody, {"description": "what customers ordered"}, patch=True),
)
async def change_topic(request: Request, topic: TopicName, services: ServicesOf) -> Response:
    """Change a topic by a merge patch."""
    asked = await json_request(request)
    changed = await services.topics.change(
        topic, lambda current: changed_topic(current, asked.body, strict=asked.strict)
    )
    return answer(topic_read(changed), notes=AnswerNotes(ignored=ignored_in_topic(asked.body)))


@router.delete("/{topic}", responses=answers(None) | errors(403, 404))
async def delete_topic(topic: TopicName, services: ServicesOf) -> Response:
    """Delete a topic that has no subscriptions, with its messages."""
    await services.topics.delete(topic)
    return answer()


@router.get("/{topic}/metrics", responses=answers(TopicMetricsRead) | errors(404))
async def topic_metrics(topic: TopicName, services: ServicesOf) -> Response:
    """What is known of its traffic."""
    return answer(TopicMetricsRead.of(await services.metrics.topic(topic)))

"""`POST /topics/{topic}` as a raw ASGI application: the one route that must be lean."""

import time
from http import HTTPStatus
from typing import Final
from uuid import uuid4

from starlette.types import Receive, Scope, Send

from app.api.body import ClientGoneError, read_body
from app.api.publish_answers import Answer, failure, send_answer
from app.api.publish_headers import PublishHeaders, own_id
from app.api.publish_topic import publish_topic, said_of_topic
from app.domain.errors import TopicNotFoundError, UnroutableError
from app.services.directory import TopicDirectory
from app.services.publishing import Publication, Publisher, record_of

_PREFIX: Final = "/topics/"


def published_topic(scope: Scope) -> str | None:
    """The topic that this path publishes to; None for any other path, whatever the method."""
    path: str = scope["path"]
    name = path[len(_PREFIX) :]
    return name if path.startswith(_PREFIX) and name and "/" not in name else None


class PublishRoute:
    """Stores a published body; every answer carries `Hermes-Message-Id`, errors too."""

    def __init__(self, directory: TopicDirectory, publisher: Publisher) -> None:
        self._directory = directory
        self._publisher = publisher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 once the log has the message, else the error."""
        message_id = str(uuid4()).encode()
        headers = PublishHeaders(scope["headers"])
        try:
            message_id = own_id(headers) or message_id
            answer = await self._published(scope, receive, headers, message_id=message_id)
        except ClientGoneError:
            return
        except Exception as error:  # noqa: BLE001 - whatever broke, the publisher gets an answer
            answer = failure(error)
        answer.headers.append((b"hermes-message-id", message_id))
        await send_answer(send, answer)

    async def _published(
        self, scope: Scope, receive: Receive, headers: PublishHeaders, *, message_id: bytes
    ) -> Answer:
        name = published_topic(scope) or ""
        topic = await publish_topic(name, scope, self._directory)
        body = await read_body(receive, scope["headers"], size_max=topic.message_size_max)
        publication = Publication(
            id=message_id,
            body=body,
            content_type=headers.content_type,
            partition_key=headers.partition_key,
            propagated=headers.propagated(topic),
        )
        try:
            await self._publisher.publish(topic, record_of(publication, now_ms=now_ms()))
        except TopicNotFoundError as error:
            self._directory.forget(topic)
            if topic.name != name:
                raise UnroutableError(f"Topic {name} has lost its alternate topic") from error
            raise
        return Answer(HTTPStatus.CREATED, said_of_topic(topic, name, self._directory))


def now_ms() -> int:
    """The time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000

"""`POST /topics/{topic}` as an ASGI application without a framework, because it must be fast."""

import time
from collections.abc import Sequence
from typing import Final

from starlette.types import Receive, Scope, Send

from app.api.access import token_of
from app.api.body import BODY_TIMEOUT_S, BodyReader, ClientGoneError, too_large
from app.api.publish.answers import Answer, failure, send_answer
from app.api.publish.cloudevents import (
    BATCHED,
    NO_EVENT,
    STRUCTURED,
    PublishedEvent,
    event_in_binary_mode,
    event_of,
)
from app.api.publish.headers import PublishHeaders, media_type, own_id
from app.api.publish.message_ids import MessageIds
from app.api.publish.schema_check import SchemaCheck
from app.api.publish.topic import publish_topic, topic_headers, unwanted
from app.api.publish.wait import stored_status, wait_of, waited, waiting_for
from app.domain.catalogue.topic import Topic
from app.domain.errors import FormatInvalidError, TopicNotFoundError, UnroutableError
from app.metrics.publish_counts import PublishCounts
from app.schemas.json_bodies import check_json_body
from app.services.access.authorization import Gate
from app.services.catalogue.alternate_topics import Routes
from app.services.directory.topics import TopicDirectory
from app.services.publishing.deduplication import IdempotentPublisher
from app.services.publishing.mandatory import is_wanted
from app.services.publishing.publisher import Publication, record_of
from app.services.publishing.waiters import Waiters, Waiting

DUPLICATE: Final = (b"angelia-duplicate", b"true")
_NO_BATCH: Final = f"{BATCHED} is a batch: POST it to /topics/{{topic}}/batch"
_PREFIX: Final = "/topics/"
# `POST /topics/query` searches topics. No topic has the name `query`, because names of topics
# contain a group.
_NO_TOPIC: Final = frozenset({"", "query"})


def published_topic(scope: Scope) -> str | None:
    """Return the topic in the path of a request, for any method; None for other paths."""
    path: str = scope["path"]
    name = path[len(_PREFIX) :]
    is_topic = path.startswith(_PREFIX) and name not in _NO_TOPIC and "/" not in name
    return name if is_topic else None


class PublishRoute:
    """Stores a published body. Every response has `Hermes-Message-Id`, error responses too."""

    def __init__(
        self,
        directory: TopicDirectory,
        publisher: IdempotentPublisher,
        *,
        waiters: Waiters,
        gate: Gate,
        schemas: SchemaCheck,
        counts: PublishCounts | None = None,
        body_timeout_s: float = BODY_TIMEOUT_S,
    ) -> None:
        self._answered = (counts or PublishCounts()).answered
        self._schemas = schemas
        self._directory = directory
        self._waiters = waiters
        self._gate = gate
        self._bodies = BodyReader(body_timeout_s)
        self._ids = MessageIds()
        self._publisher = publisher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 when the log has the message; otherwise answer with the error."""
        message_id = self._ids.new()
        name = published_topic(scope) or ""
        headers = PublishHeaders(scope["headers"])
        refusing: Topic | None = None
        try:
            message_id = own_id(headers) or message_id
            wait = wait_of(scope)
            caller = await self._gate.caller(token_of(headers.authorization))
            topic, routes = await publish_topic(name, scope, self._directory)
            # The permission is checked for the requested topic. The owners of this topic decide to
            # which other topics its messages go.
            self._gate.require(caller, self._directory.known(name) or topic)
            refusing = topic
            body = await self._bodies.read(
                receive, scope["headers"], size_max=topic.message_size_max
            )
            propagated = headers.propagated(topic)
            event = await _event(headers, propagated, body)
            if event.id and headers.given_id is None:
                message_id = event.id
            publication = Publication(
                id=message_id,
                body=body,
                content_type=headers.stored_type(topic),
                partition_key=headers.partition_key or event.key,
                propagated=propagated,
            )
            if routes is not None:
                topic, publication = await self._routed(
                    routes, publication, headers, is_checked=event.checked
                )
            elif topic.schemas:
                checked = self._schemas.checked(topic, publication, headers, now_ms=now_ms())
                publication = await checked
            elif not event.checked:
                await check_json_body(body)
            # Deduplication uses the message id only if the publisher sent it, in `Idempotency-Key`
            # or in the event. An id that this process made is always new.
            own = message_id if headers.given_id is not None or event.id else None
            with waiting_for(
                scope, wait, topic.name, directory=self._directory, waiters=self._waiters
            ) as waiting:
                refusing = None  # from here on, publishing writes the trace entry of this message
                duplicate = await self._stored(
                    topic, publication, own, requested_topic=name, waiting=waiting
                )
                # A publisher of a duplicate does not wait for outcomes, because no subscription
                # will acknowledge the duplicate.
                answer = Answer(stored_status(waiting), topic_headers(topic, name, self._directory))
                if duplicate:
                    answer.headers.append(DUPLICATE)
                elif waiting is not None:
                    status, body = await waited(waiting, message_id, receive)
                    answer = answer._replace(status=status, body=body)
        except ClientGoneError:
            return
        except Exception as error:  # noqa: BLE001 - the publisher gets a response after any error
            if refusing is not None:
                self._publisher.refused(refusing, message_id, error)
            answer = failure(error, message_id)
        answer.headers.append((b"hermes-message-id", message_id))
        self._answered(self._directory.known(name), answer.status)
        await send_answer(send, answer)

    async def _routed(
        self, routes: Routes, given: Publication, headers: PublishHeaders, *, is_checked: bool
    ) -> tuple[Topic, Publication]:
        """Return the topic that gets the message, and the publication for this topic.

        The topic is the first one with a subscription that wants the message. If there is none, the
        last alternate topic gets the message.

        Raises:
            UnroutableError: No subscription wants the message, and there is no alternate topic.
        """
        for position, topic in enumerate(routes.topics, 1):
            offered = given._replace(
                content_type=headers.stored_type(topic), propagated=headers.propagated(topic)
            )
            if len(given.body) > topic.message_size_max:
                raise too_large(topic.message_size_max)
            if topic.schemas:
                offered = await self._schemas.checked(topic, offered, headers, now_ms=now_ms())
            elif not is_checked:
                await check_json_body(given.body)
                is_checked = True
            if position == len(routes.topics) and routes.last_takes_all:
                return topic, offered
            record = record_of(offered, now_ms=now_ms())
            if await is_wanted(topic, record, self._directory):
                return topic, offered
        raise unwanted(routes)

    async def _stored(
        self,
        topic: Topic,
        publication: Publication,
        own_id: bytes | None,
        *,
        requested_topic: str,
        waiting: Waiting | None,
    ) -> bool:
        receipt = waiting.header if waiting else None
        record = record_of(publication, now_ms=now_ms(), receipt=receipt)
        try:
            return await self._publisher.publish(topic, record, own_id)
        except TopicNotFoundError as error:
            self._directory.forget(topic)
            if topic.name != requested_topic:
                raise UnroutableError(
                    f"Topic {requested_topic} lost its alternate topic"
                ) from error
            raise


async def _event(
    headers: PublishHeaders, propagated: Sequence[tuple[bytes, bytes]], body: bytes
) -> PublishedEvent:
    media = media_type(headers.content_type)
    if media == STRUCTURED:
        return await event_of(body)
    if media == BATCHED:
        raise FormatInvalidError(_NO_BATCH)
    return event_in_binary_mode(propagated, body) if propagated else NO_EVENT


def now_ms() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000

"""`POST /topics/{topic}/batch` as an ASGI application: many messages, with a result for each."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final

import orjson
import structlog
from starlette.types import Receive, Scope, Send

from app.api.access import token_of
from app.api.body import ClientGoneError, read_body
from app.api.errors import RETRY_AFTER_S, status_of
from app.api.publish.answers import INTERNAL_ERROR, Answer, failure, send_answer
from app.api.publish.batch_items import BatchItem, Form, form_of, items
from app.api.publish.batch_slices import BatchTurns
from app.api.publish.headers import PublishHeaders, flag, media_type, query_value
from app.api.publish.message_ids import MessageIds
from app.api.publish.route import now_ms
from app.api.publish.schema_check import RequestedSchema, SchemaCheck, requested_schema_of
from app.api.publish.topic import publish_topic, topic_headers, unwanted
from app.domain.catalogue.topic import Topic
from app.domain.errors import (
    AngeliaError,
    DuplicateMessageError,
    MessageTooLargeError,
    TopicNotFoundError,
    ValidationFailedError,
)
from app.domain.message import NewRecord
from app.metrics.publish_counts import PublishCounts
from app.schemas.json_bodies import check_json_body
from app.schemas.request_work import RequestWork
from app.services.access.authorization import Gate
from app.services.catalogue.alternate_topics import Routes
from app.services.directory.topics import TopicDirectory
from app.services.publishing.acknowledgement import PATH
from app.services.publishing.deduplication import IdempotentPublisher
from app.services.publishing.mandatory import is_wanted
from app.services.publishing.publisher import Publication, record_of

BATCH_MESSAGES_MAX: Final = 1_000
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
# How many bytes of a batch are parsed before other requests are handled.
_BYTES_PER_TURN: Final = 256 * 1024
# How many bytes of a batch are validated against a schema before other requests are handled.
_CHECKED_BYTES_PER_TURN: Final = 32 * 1024
_CREATED: Final = int(HTTPStatus.CREATED)

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Outcome:
    """The result of one message of a batch.

    Attributes:
        id: The id of the message.
        topic: The topic of the message.
        own: Whether the publisher has chosen the id.
        record: What the log stores; None if the message is refused.
        duplicate: Whether the message was stored before.
        error: Why the message is refused or not stored.
    """

    id: bytes
    topic: Topic
    own: bool = False
    record: NewRecord | None = None
    duplicate: bool = False
    error: AngeliaError | None = None

    @property
    def status(self) -> int:
        """Return the status that the message would have if it were published alone."""
        return _CREATED if self.error is None else status_of(self.error)

    def answered(self, requested_topic: str) -> dict[str, Any]:
        """Return the result as JSON. The topic is included if it is not `requested_topic`."""
        result: dict[str, Any] = {"id": self.id.decode(), "status": self.status}
        if self.error is not None:
            result |= {"code": self.error.code, "message": self.error.message}
        if isinstance(self.error, DuplicateMessageError) and self.error.duplicate_of:
            result["duplicateOf"] = self.error.duplicate_of
        if self.duplicate:
            result["duplicate"] = True
        if self.error is None and self.topic.name != requested_topic:
            result["alternateTopic"] = self.topic.name
        return result


class BatchRoute:
    """Stores each valid message of a batch, and returns the results in the messages' order."""

    def __init__(
        self,
        directory: TopicDirectory,
        publisher: IdempotentPublisher,
        *,
        gate: Gate,
        schemas: SchemaCheck,
        counts: PublishCounts | None = None,
    ) -> None:
        self._answered = (counts or PublishCounts()).answered
        self._gate = gate
        self._schemas = schemas
        self._directory = directory
        self._publisher = publisher
        self._ids = MessageIds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 if all messages are stored, 207 if some are stored.

        For other cases see `answer_of`.
        """
        try:
            answer = await self._published(scope, receive)
        except ClientGoneError:
            return
        except Exception as error:  # noqa: BLE001 - the publisher gets a response after any error
            answer = failure(error)
        self._answered(self._directory.known(scope["path_params"]["topic"]), answer.status)
        await send_answer(send, answer)

    async def _published(self, scope: Scope, receive: Receive) -> Answer:
        headers = PublishHeaders(scope["headers"])
        form = form_of(media_type(headers.content_type))
        envelope = _is_enveloped(scope, form)
        _require_no_id(headers)
        _require_no_wait(scope)
        name: str = scope["path_params"]["topic"]
        caller = await self._gate.caller(token_of(headers.authorization))
        topic, routes = await publish_topic(name, scope, self._directory)
        self._gate.require(caller, self._directory.known(name) or topic)
        named = RequestedSchema()
        if topic.schemas:
            named = requested_schema_of(headers)
            topic = await self._schemas.known(topic, named)
        body = await read_body(receive, scope["headers"], size_max=BATCH_BYTES_MAX)
        batch = ReceivedBatch(
            topic=topic,
            named=named,
            partition_key=headers.partition_key,
            propagated=headers.propagated(topic),
            body=body,
            form=form,
            envelope=envelope,
            ids=self._ids,
            now_ms=now_ms(),
            schemas=self._schemas,
            work=RequestWork(len(body)),
        )
        batches = [batch, *await self._following(batch, routes, headers)]
        outcomes = await _outcomes(batches, routes, self._directory)
        for outcome in outcomes:
            if outcome.error is not None:
                self._publisher.refused(outcome.topic, outcome.id, outcome.error)
        topics = await self._store_all(outcomes)
        answer = answer_of(outcomes, name)
        where = topics[0] if len(topics) == 1 else topic
        answer.headers.extend(topic_headers(where, name, self._directory))
        return answer

    async def _following(
        self, batch: "ReceivedBatch", routes: Routes | None, headers: PublishHeaders
    ) -> list["ReceivedBatch"]:
        """Return a copy of the batch for each alternate topic that may get its messages."""
        following = []
        for topic in routes.topics[1:] if routes else ():
            named = requested_schema_of(headers) if topic.schemas else RequestedSchema()
            known = await self._schemas.known(topic, named)
            propagated = headers.propagated(topic)
            following.append(replace(batch, topic=known, named=named, propagated=propagated))
        return following

    async def _store_all(self, outcomes: Sequence[Outcome]) -> list[Topic]:
        """Store the messages that can be stored. Return the topics of these messages.

        If storing fails for a whole topic, each message of the topic gets the error.

        Raises:
            AngeliaError: Nothing is stored; the error has the reason.
        """
        by_topic: dict[str, list[Outcome]] = {}
        for outcome in outcomes:
            if outcome.record:
                by_topic.setdefault(outcome.topic.name, []).append(outcome)
        topics = [of_topic[0].topic for of_topic in by_topic.values()]
        failed = [await self._store(topic, by_topic[topic.name]) for topic in topics]
        nothing_stored = all(outcome.error for outcome in outcomes)
        if nothing_stored and (error := next(filter(None, failed), None)):
            raise error
        return topics

    async def _store(self, topic: Topic, outcomes: Sequence[Outcome]) -> AngeliaError | None:
        """Store the messages of one topic. If all of them fail together, return the error."""
        records = [outcome.record for outcome in outcomes if outcome.record]
        own_ids = [outcome.id if outcome.own else None for outcome in outcomes]
        answers: Sequence[AngeliaError | bool]
        failed: AngeliaError | None = None
        try:
            answers = await self._publisher.publish_all(topic, records, own_ids)
        except Exception as error:  # noqa: BLE001 - the results of other topics are still returned
            failed = _reported(error, topic)
            answers = [failed] * len(records)
        for outcome, answer in zip(outcomes, answers, strict=True):
            if isinstance(answer, AngeliaError):
                outcome.error = answer
            else:
                outcome.duplicate = answer
        if any(isinstance(answer, TopicNotFoundError) for answer in answers):
            self._directory.forget(topic)
        return failed


def _reported(error: Exception, topic: Topic) -> AngeliaError:
    """Return the error to show to publishers.

    An internal error is logged, and a general error is returned instead.
    """
    if isinstance(error, AngeliaError):
        return error
    _log.error("publish_broke", exc_info=error, topic=topic.name)
    return AngeliaError(INTERNAL_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedBatch:
    """A received batch, and the topic to which its messages go."""

    topic: Topic
    named: RequestedSchema
    partition_key: bytes | None
    propagated: tuple[tuple[bytes, bytes], ...]
    body: bytes
    form: Form
    envelope: bool
    ids: MessageIds
    now_ms: int
    schemas: SchemaCheck
    # The amount of work that may be spent on the validation of all messages of the batch together.
    work: RequestWork


def answer_of(outcomes: Sequence[Outcome], requested_topic: str) -> Answer:
    """Return one result for each message, and one status for the whole batch.

    201 means that all messages are stored, and 207 that some are stored. If none is stored, the
    response is an error that contains the results. If all messages have the same status, the error
    has that status. Otherwise its status is 503 if a retry may store a message, and 400 if not.
    """
    results = [outcome.answered(requested_topic) for outcome in outcomes]
    statuses = {outcome.status for outcome in outcomes}
    if statuses <= {HTTPStatus.CREATED}:
        return Answer(HTTPStatus.CREATED, [], orjson.dumps(results))
    if HTTPStatus.CREATED in statuses:
        return Answer(HTTPStatus.MULTI_STATUS, [], orjson.dumps(results))
    return _nothing_stored(results, _shared(statuses))


def _nothing_stored(results: Sequence[dict[str, Any]], status: int) -> Answer:
    first = next((each for each in results if each["status"] == status), results[0])
    message = f"No message is stored: {first['message']}"
    body = orjson.dumps({"message": message, "code": first["code"], "results": results})
    later = status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}
    return Answer(status, [(b"retry-after", b"%d" % RETRY_AFTER_S)] if later else [], body)


def _shared(statuses: set[int]) -> int:
    if len(statuses) == 1:
        return next(iter(statuses))
    later = HTTPStatus.SERVICE_UNAVAILABLE
    return later if later in statuses else HTTPStatus.BAD_REQUEST


async def _outcomes(
    batches: Sequence[ReceivedBatch], routes: Routes | None, directory: TopicDirectory
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    batch = batches[0]
    per_turn = _CHECKED_BYTES_PER_TURN if batch.topic.schemas else _BYTES_PER_TURN
    turns = BatchTurns(bytes_max=per_turn, clock=perf_counter)
    async for item in items(batch.body, batch.form, envelope=batch.envelope):
        # The time is also checked before each message, because finding the end of a message takes
        # as long as parsing it.
        if turns.is_over(0):
            await asyncio.sleep(0)
            turns.begin()
        if len(outcomes) == BATCH_MESSAGES_MAX:
            message = f"has more than the limit of {BATCH_MESSAGES_MAX} messages"
            raise ValidationFailedError.of("batch", message)
        if routes is None:
            outcomes.append(await outcome_of(item, batch))
        else:
            outcomes.append(await _routed(item, batches, routes, directory=directory))
        if turns.is_over(len(item.body) if isinstance(item, BatchItem) else 0):
            await asyncio.sleep(0)
            turns.begin()
    return outcomes


async def _routed(
    item: BatchItem | AngeliaError,
    batches: Sequence[ReceivedBatch],
    routes: Routes,
    *,
    directory: TopicDirectory,
) -> Outcome:
    """Return what to store for one message, in the first topic that has a subscription for it.

    If no subscription wants the message, the last alternate topic gets it. Without an alternate
    topic, the result is an error.
    """
    for batch in batches:
        outcome = await outcome_of(item, batch)
        if outcome.record is None or (batch is batches[-1] and routes.last_takes_all):
            return outcome
        if await is_wanted(batch.topic, outcome.record, directory):
            return outcome
    return replace(outcome, topic=batches[0].topic, record=None, error=unwanted(routes))


async def outcome_of(item: BatchItem | AngeliaError, batch: ReceivedBatch) -> Outcome:
    """Return what to store for one message, or the error of this message.

    An error does not affect other messages. While a large message is checked, the process also
    handles other requests.
    """
    if isinstance(item, AngeliaError):
        return Outcome(batch.ids.new(), batch.topic, error=item)
    message_id = item.id or batch.ids.new()
    if len(item.body) > batch.topic.message_size_max:
        limit = f"The message is larger than the limit of {batch.topic.message_size_max} bytes"
        return Outcome(message_id, batch.topic, error=MessageTooLargeError(limit))
    publication = Publication(
        id=message_id,
        body=item.body,
        content_type=item.content_type,
        partition_key=item.key or batch.partition_key,
        propagated=batch.propagated,
    )
    try:
        if batch.topic.schemas:
            publication = await batch.schemas.stored(
                batch.topic, publication, batch.named, now_ms=batch.now_ms, work=batch.work
            )
        elif not item.checked:
            await check_json_body(item.body)
    except Exception as error:  # noqa: BLE001 - the other messages still get their results
        return Outcome(message_id, batch.topic, error=_reported(error, batch.topic))
    record = record_of(publication, now_ms=batch.now_ms)
    return Outcome(message_id, batch.topic, own=item.id is not None, record=record)


def _is_enveloped(scope: Scope, form: Form) -> bool:
    enveloped = flag(scope, "envelope")
    if enveloped and form is Form.EVENTS:
        raise ValidationFailedError.of("envelope", "does not go with CloudEvents")
    return enveloped


def _require_no_wait(scope: Scope) -> None:
    for name in ("wait", PATH):
        if query_value(scope, name) is not None:
            message = "does not go with batches: publish the message alone"
            raise ValidationFailedError.of(name, message)


def _require_no_id(headers: PublishHeaders) -> None:
    if headers.given_id is not None:
        message = "names one message: give each its id with ?envelope=true"
        raise ValidationFailedError.of("Idempotency-Key", message)

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Any

import orjson
import pytest

from app.api.publish.batch import BatchRoute
from app.api.publish.route import PublishRoute, published_topic
from app.domain.catalogue.changes import Changes
from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import MESSAGE_SIZE_MAX, Ack, Topic
from app.domain.errors import LogUnavailableError
from app.domain.message import HEADER_ID, NewRecord
from app.log.interface import Position
from app.schemas.json_pieces import PIECE_BYTES
from app.services.catalogue.topics import log_topic
from app.services.directory.topics import TopicDirectory
from app.services.publishing.deduplication import IdempotentPublisher
from app.services.publishing.publisher import WAITING_BYTES_MAX, Publisher
from app.services.publishing.waiters import Waiters
from tests.fakes.access import open_gate
from tests.fakes.claims import no_claims
from tests.fakes.memory_log import MemoryLog
from tests.fakes.schemas import schema_check
from tests.fakes.turns import turns_beside

TOPIC = Topic(name="a.b", message_size_max=MESSAGE_SIZE_MAX)
LARGE = b"[" + b"[]," * 300_000 + b"0]"
# Its attributes are before and behind the pieces of its data.
EVENT = (
    b'{"specversion":"1.0","id":"e-2","source":"s","data":%b,"type":"t","id":"e-1",'
    b'"partitionkey":"k"}' % LARGE
)
FILTERED = Subscription(
    id="s-1",
    name="s",
    topic=TOPIC.name,
    endpoint="http://h/",
    filters=(Filter(type=FilterType.CEL, expression="key == 'k'"),),
)
Message = dict[str, Any]


class Exchange:
    """A request as a server hands it over, message by message, and what is answered."""

    def __init__(self, *parts: Message, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": "/topics/a.b",
            "query_string": b"",
            "headers": headers,
        }
        self._parts = iter(parts)
        self.sent: list[MutableMapping[str, Any]] = []

    async def receive(self) -> Message:
        return next(self._parts)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        status: int | None = self.sent[0]["status"] if self.sent else None
        return status

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON is of any type
        return orjson.loads(self.sent[1]["body"])


def part(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


GONE: Message = {"type": "http.disconnect"}


class BrokenLog(MemoryLog):
    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        message = f"the secret inside: {topic} {records} {ack}"
        raise RuntimeError(message)


async def look_up(name: str) -> Topic:
    assert name == TOPIC.name
    return TOPIC


async def exchanged(exchange: Exchange, log: MemoryLog, *subscriptions: Subscription) -> Exchange:
    await log.create_topic(log_topic(TOPIC))
    directory = TopicDirectory(look_up)
    directory.apply(Changes(number=1, topics=(TOPIC,), subscriptions=subscriptions))
    async with Publisher(log) as publisher:
        route = PublishRoute(
            directory,
            IdempotentPublisher(publisher, no_claims),
            waiters=Waiters(),
            gate=open_gate(),
            schemas=schema_check(directory),
        )
        await route(exchange.scope, exchange.receive, exchange.send)
    return exchange


async def test_joins_the_parts_of_a_body() -> None:
    log = MemoryLog()
    exchange = Exchange(part(b"[1, ", more=True), part(b"", more=True), part(b"2]"))
    assert (await exchanged(exchange, log)).status == 201
    assert [record.value for record in log.records("a.b")] == [b"[1, 2]"]


async def test_others_have_their_turn_while_a_large_message_is_checked() -> None:
    log = MemoryLog()
    exchange = Exchange(part(LARGE))
    assert await turns_beside(exchanged(exchange, log)) > len(LARGE) // PIECE_BYTES
    assert exchange.status == 201
    assert [record.value for record in log.records("a.b")] == [LARGE]


async def batch_exchanged(exchange: Exchange, log: MemoryLog) -> Exchange:
    exchange.scope["path_params"] = {"topic": TOPIC.name}
    await log.create_topic(log_topic(TOPIC))
    async with Publisher(log) as publisher:
        directory = TopicDirectory(look_up)
        route = BatchRoute(
            directory,
            IdempotentPublisher(publisher, no_claims),
            gate=open_gate(),
            schemas=schema_check(directory),
        )
        await route(exchange.scope, exchange.receive, exchange.send)
    return exchange


async def test_others_have_their_turn_while_a_large_mandatory_message_is_checked() -> None:
    exchange = Exchange(part(LARGE))
    exchange.scope["query_string"] = b"mandatory=true"
    turns = await turns_beside(exchanged(exchange, MemoryLog(), FILTERED))
    assert turns > len(LARGE) // PIECE_BYTES
    assert "has filters that let it through" in exchange.json["message"]


@pytest.mark.parametrize(
    ("content_type", "query", "body"),
    [
        (b"application/json", b"", b"[1, %b]" % LARGE),
        (b"application/json", b"envelope=true", b'[{"id": "m", "message": %b}]' % LARGE),
        (b"application/x-ndjson", b"envelope=true", b'{"message": %b, "key": "k"}' % LARGE),
        (b"application/cloudevents-batch+json", b"", b"[%b]" % EVENT),
    ],
)
async def test_others_have_their_turn_while_a_large_message_of_a_batch_is_taken_out_and_checked(
    content_type: bytes, query: bytes, body: bytes
) -> None:
    log = MemoryLog()
    exchange = Exchange(part(body), headers=[(b"content-type", content_type)])
    exchange.scope["query_string"] = query
    # To find its end, and to check it.
    turns = await turns_beside(batch_exchanged(exchange, log))
    assert turns > 2 * (len(LARGE) // PIECE_BYTES)
    assert exchange.status == 201
    wanted = EVENT if content_type.startswith(b"application/cloudevents") else LARGE
    assert log.records("a.b")[-1].value == wanted


async def test_others_have_their_turn_while_a_large_event_is_checked() -> None:
    log = MemoryLog()
    headers = [(b"content-type", b"application/cloudevents+json")]
    exchange = Exchange(part(EVENT), headers=headers)
    assert await turns_beside(exchanged(exchange, log)) > len(LARGE) // PIECE_BYTES
    assert exchange.status == 201
    (record,) = log.records("a.b")
    assert (record.value, record.header(HEADER_ID), record.key) == (EVENT, b"e-1", b"k")


async def test_large_lines_of_a_batch_are_checked_in_pieces_and_each_has_its_result() -> None:
    log = MemoryLog()
    lines = part(b"\n".join([LARGE, LARGE[:-1], b"1"]))
    exchange = Exchange(lines, headers=[(b"content-type", b"application/x-ndjson")])
    turns = await turns_beside(batch_exchanged(exchange, log))
    assert turns > 2 * (len(LARGE) // PIECE_BYTES)
    assert [each["status"] for each in exchange.json] == [201, 400, 201]
    assert "unexpected end of data" in exchange.json[1]["message"]
    assert [record.value for record in log.records("a.b")] == [LARGE, b"1"]


async def test_a_body_that_does_not_come_is_waited_for_only_so_long() -> None:
    log = MemoryLog()
    await log.create_topic(log_topic(TOPIC))
    exchange = Exchange()
    begun, never = asyncio.Event(), asyncio.Event()

    async def receive() -> Message:
        if begun.is_set():
            await never.wait()
        begun.set()
        return part(b"half", more=True)

    async with Publisher(log) as publisher:
        idempotent = IdempotentPublisher(publisher, no_claims)
        route = PublishRoute(
            TopicDirectory(look_up),
            idempotent,
            waiters=Waiters(),
            gate=open_gate(),
            schemas=schema_check(TopicDirectory(look_up)),
            body_timeout_s=0.01,
        )
        await route(exchange.scope, receive, exchange.send)
    assert (exchange.status, exchange.json["code"]) == (408, "TIMEOUT")
    assert (b"connection", b"close") in exchange.sent[0]["headers"]
    assert log.records("a.b") == []


async def test_stores_and_answers_nothing_when_the_client_goes_away_amid_its_body() -> None:
    log = MemoryLog()
    exchange = await exchanged(Exchange(part(b"half", more=True), GONE), log)
    assert exchange.sent == []
    assert log.records("a.b") == []


async def test_refuses_a_body_of_another_length_than_it_said() -> None:
    log = MemoryLog()
    headers = [(b"content-length", b"9")]
    exchange = await exchanged(Exchange(part(b"short"), headers=headers), log)
    assert (exchange.status, exchange.json["code"]) == (400, "VALIDATION_ERROR")
    assert log.records("a.b") == []


async def test_refuses_a_body_that_says_it_is_too_large_without_reading_it() -> None:
    headers = [(b"content-length", b"9999999")]
    exchange = await exchanged(Exchange(headers=headers), MemoryLog())
    assert exchange.status == 413


async def test_a_defect_of_the_log_is_answered_and_tells_nothing_of_the_inside() -> None:
    exchange = await exchanged(Exchange(part(b"1")), BrokenLog())
    assert (exchange.status, exchange.json["code"]) == (503, "SENDING_TO_KAFKA_TIMEOUT")
    assert "secret" not in str(exchange.json)


async def test_a_topic_that_the_log_has_lost_is_not_found() -> None:
    log = MemoryLog()

    async with Publisher(log) as publisher:
        exchange = Exchange(part(b"1"))
        route = PublishRoute(
            TopicDirectory(look_up),
            IdempotentPublisher(publisher, no_claims),
            waiters=Waiters(),
            gate=open_gate(),
            schemas=schema_check(TopicDirectory(look_up)),
        )
        await route(exchange.scope, exchange.receive, exchange.send)
    assert (exchange.status, exchange.json["code"]) == (404, "TOPIC_NOT_EXISTS")


async def test_refuses_at_once_when_too_much_waits_for_the_log() -> None:
    log = MemoryLog()
    await log.create_topic(log_topic(TOPIC))
    async with Publisher(log) as publisher:
        with pytest.raises(LogUnavailableError, match="Too many"):
            await publisher.publish(TOPIC, NewRecord(value=b"x" * (WAITING_BYTES_MAX + 1)))
        await publisher.publish(TOPIC, NewRecord(value=b"x"))


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("/topics/a.b", "a.b"),
        ("/topics/a.b.c-d_e", "a.b.c-d_e"),
        ("/topics", None),
        ("/topics/", None),
        ("/topics/a.b/", None),
        ("/topics/a.b/subscriptions", None),
        ("/x/topics/a.b", None),
    ],
)
def test_knows_the_paths_that_are_published_to(path: str, topic: str | None) -> None:
    assert published_topic({"path": path}) == topic

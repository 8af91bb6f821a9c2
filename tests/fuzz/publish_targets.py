"""The entrance of publishers: whatever is asked, one answer, and never one of ours at fault."""

from collections.abc import MutableMapping
from typing import Any, Final

from app.api.publish.batch import BatchRoute
from app.api.publish.route import PublishRoute
from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.services.catalogue.topics import log_topic
from app.services.directory.topics import TopicDirectory
from app.services.publishing.deduplication import IdempotentPublisher
from app.services.publishing.publisher import Publisher
from app.services.publishing.waiters import Waiters
from tests.fakes.access import open_gate
from tests.fakes.claims import no_claims
from tests.fakes.memory_log import MemoryLog
from tests.fakes.schemas import schema_check
from tests.fuzz.target import Target, run

JSON_SCHEMA: Final = '{"type":"object","properties":{"a":{"type":"integer"}}}'
AVRO_SCHEMA: Final = '{"type":"record","name":"R","fields":[{"name":"a","type":["null","string"]}]}'
TOPICS: Final = {
    each.name: each
    for each in (
        Topic(name="a.plain", partitions=1, propagated_headers=("X-A",)),
        Topic(
            name="a.json", partitions=1, schemas=(TopicSchema(version=1, id=7, text=JSON_SCHEMA),)
        ),
        Topic(
            name="a.avro",
            partitions=1,
            content_type=ContentType.AVRO,
            schemas=(TopicSchema(version=1, id=8, text=AVRO_SCHEMA),),
        ),
    )
}
_PLACES: Final = tuple(TOPICS)
_BATCH: Final = 8
SERVER_ERROR: Final = 500


class _Exchange:
    """A request in two parts, and what is answered."""

    def __init__(self, scope: dict[str, Any], body: bytes) -> None:
        self.scope = scope
        half = len(body) // 2
        self._parts = iter(((body[:half], True), (body[half:], False)))
        self.sent: list[MutableMapping[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        body, more = next(self._parts)
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status


async def _look_up(name: str) -> Topic:
    return TOPICS[name]


def check_publication(data: bytes) -> None:
    """Each request is answered once: what is stored is answered with 201, all else is refused.

    The first byte says which topic it goes to, and whether it is a batch. Lines are headers, and
    the body stands behind an empty line.
    """
    if not data:
        return
    head, _, body = data[1:].partition(b"\n\n")
    topic = TOPICS[_PLACES[data[0] % len(_PLACES)]]
    is_batch = data[0] >= _BATCH
    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/topics/{topic.name}" + "/batch" * is_batch,
        "path_params": {"topic": topic.name},
        "query_string": b"",
        "headers": [*_headers(head)],
    }
    run(_publish(topic, _Exchange(scope, body), body, is_batch=is_batch))


def _headers(head: bytes) -> list[tuple[bytes, bytes]]:
    """Headers as a server hands them over: names in lower case, values without spaces around."""
    lines = (line.partition(b":") for line in head.split(b"\n"))
    return [(name.lower(), value.strip()) for name, colon, value in lines if name and colon]


async def _publish(topic: Topic, exchange: _Exchange, body: bytes, *, is_batch: bool) -> None:
    log, directory = MemoryLog(), TopicDirectory(_look_up)
    await log.create_topic(log_topic(topic))
    async with Publisher(log) as publisher:
        once, schemas = IdempotentPublisher(publisher, no_claims), schema_check(directory)
        route: PublishRoute | BatchRoute = (
            BatchRoute(directory, once, gate=open_gate(), schemas=schemas)
            if is_batch
            else PublishRoute(directory, once, waiters=Waiters(), gate=open_gate(), schemas=schemas)
        )
        await route(exchange.scope, exchange.receive, exchange.send)
    kinds = [each["type"] for each in exchange.sent]
    assert kinds == ["http.response.start", "http.response.body"], kinds
    assert exchange.status < SERVER_ERROR, exchange.sent
    if not is_batch:
        stored = [record.value for record in log.records(topic.name)]
        assert len(stored) == (exchange.status == 201), exchange.sent
        if topic.content_type is ContentType.JSON:
            assert stored in ([], [body])


PUBLICATIONS: Final = Target(
    check_publication,
    [
        (b'\0content-type: application/json\nidempotency-key: m-1\npartition-key: k\n\n{"a":1}'),
        (
            b"\0content-type: application/cloudevents+json\n\n"
            b'{"specversion":"1.0","id":"a","source":"s","type":"t","data":{}}'
        ),
        (
            b"\0ce-specversion: 1.0\nce-id: a\nce-source: s\nce-type: t\nx-a: b\ntraceparent: "
            b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n\n[]"
        ),
        b"\1schema-version: 1\n\n" + b'{"a":1}',
        (
            b"\1content-type: application/cloudevents+json\n\n"
            b'{"specversion":"1.0","id":"a","source":"s","type":"t","data_base64":"eyJhIjoxfQ=="}'
        ),
        b"\2content-type: avro/binary\n\n\x02\x02x",
        b"\2content-type: application/json\n\n" + b'{"a":"x"}',
        b"\2content-type: avro/json\nschema-id: 8\n\n" + b'{"a":{"string":"x"}}',
        b"\x0acontent-type: application/json\n\n" + b'[{"a":1},{"a":"x"},3]',
        b"\x0bcontent-type: application/x-ndjson\n\n" + b'{"a":"x"}\n{"b":1}',
        (
            b"\x09content-type: application/cloudevents-batch+json\n\n"
            b'[{"specversion":"1.0","id":"a","source":"s","type":"t"}]'
        ),
    ],
)

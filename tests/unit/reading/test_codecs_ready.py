"""Large schemas of messages are made beside the event loop, and only their messages wait."""

import asyncio
import json
import threading
from dataclasses import replace

from app.domain.catalogue.changes import Changes
from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.message import Partition
from app.log.interface import Chunk
from app.schemas.compiled import require_schema
from app.schemas.formats import TopicFormats
from app.schemas.making import SchemaMaking
from app.schemas.versions import Registered
from tests.fakes.schema_waits import written_by
from tests.fakes.supervised import until
from workers.reading.codecs_ready import AT_ONCE_MAX, CodecsReady
from workers.reading.decoder import Decoder
from workers.reading.registered_schemas import RegisteredSchemas
from workers.reading.schema_versions import VersionWait

OTHERS = Partition("shop.returns", 0)


def large(name: str) -> str:
    return json.dumps({"type": "int", "doc": name * AT_ONCE_MAX})


def formats_of(text: str) -> TopicFormats:
    formats = TopicFormats()
    schemas = (TopicSchema(version=1, id=1, text=text),)
    topic = Topic(name="shop.orders", content_type=ContentType.AVRO, schemas=schemas)
    formats.apply(Changes(number=1, topics=(topic,)))
    return formats


class Making:
    """Makes schemas in a thread that goes on when a test says so."""

    def __init__(self, *, broken: bool = False) -> None:
        self._broken = broken
        self.may_end = threading.Event()
        self.threads: list[threading.Thread] = []
        self.parts = SchemaMaking(self._make)

    def _make(self, kind: ContentType, text: str) -> None:
        self.threads.append(threading.current_thread())
        assert self.may_end.wait(timeout=60)
        if self._broken:
            raise RuntimeError
        require_schema(kind, text)

    def decoder(self, text: str) -> Decoder:
        return Decoder(formats_of(text), VersionWait(), CodecsReady(self.parts))


def of_others() -> Chunk:
    return replace(written_by(1), partition=OTHERS, records=[])


async def test_only_messages_of_a_schema_that_is_being_made_wait_for_it() -> None:
    making = Making()
    decoder = making.decoder(large("a"))
    assert decoder.batch(written_by(1)) is None
    assert decoder.awaited == "version 1 of the schema to be made ready"
    # Here, what makes it would never end.
    assert decoder.batch(of_others()) is not None
    assert decoder.batch(written_by(1)) is None
    making.may_end.set()
    await until(lambda: decoder.batch(written_by(1)) is not None)
    assert len(making.threads) == 1


async def test_a_small_schema_is_made_at_once() -> None:
    batch = Making().decoder('{"type": "int", "doc": "small"}').batch(written_by(1))
    assert batch is not None
    assert [each.body for each in batch.messages] == [b"7"]


async def test_messages_go_on_when_their_schema_cannot_be_made() -> None:
    making = Making(broken=True)
    decoder = making.decoder(large("b"))
    making.may_end.set()
    assert decoder.batch(written_by(1)) is None
    await until(lambda: decoder.batch(written_by(1)) is not None)


class Registry:
    """Has one version."""

    async def versions(self, _topic: str) -> list[int]:
        return [2]

    async def version(self, _topic: str, number: int) -> Registered | None:
        return Registered(number, number, large("c"))


async def test_schemas_of_a_registry_are_made_beside_the_loop() -> None:
    making = Making()
    formats = formats_of('"int"')
    registered = RegisteredSchemas(Registry(), formats, making=making.parts)
    running = asyncio.create_task(registered.run())
    try:
        registered.fetch("shop.orders")
        await until(lambda: bool(making.threads))
        making.may_end.set()
        await until(lambda: formats.versions("shop.orders") == {1, 2})
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert making.threads != [threading.current_thread()]

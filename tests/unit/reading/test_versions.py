"""Messages whose schema is not known yet: waited for, in the tail and when catching up."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from app.domain.feed import Changes
from app.domain.message import Partition, Record
from app.domain.schema import ContentType, TopicSchema
from app.domain.topic import Topic
from app.log.interface import Chunk
from app.schemata.formats import TopicFormats
from app.schemata.messages import AvroTopic
from tests.fakes.reading import ORDERS, ScriptedFetches, ScriptedTail, StandingReader
from tests.fakes.supervised import until
from workers.reading.catchup import CatchUp
from workers.reading.feed import Batch
from workers.reading.reader import Reader
from workers.reading.versions import VERSIONS_MAX, WAIT_MAX, VersionWait

SOON = timedelta(milliseconds=1)


def a_topic(*versions: int) -> Topic:
    schemas = tuple(TopicSchema(version=each, id=each, text='"int"') for each in versions)
    return Topic(name=ORDERS.topic, content_type=ContentType.AVRO, schemas=schemas)


def known(*versions: int) -> Changes:
    return Changes(number=1, topics=(a_topic(*versions),))


def written_by(version: int, *, offset: int = 0) -> Chunk:
    record = Record(offset, 0, None, b"\x0e", [(b"sv", b"%d" % version), (b"ct", b"avro/binary")])
    return Chunk(ORDERS, offset, offset + 1, [record], 10)


def bodies(batch: Batch | None) -> list[bytes | None]:
    return [] if batch is None else [message.body for message in batch.messages]


async def test_the_tail_waits_for_a_version_and_then_goes_on_where_it_was() -> None:
    tail = ScriptedTail()
    reader = Reader(ScriptedFetches(), tail, look_again=SOON)  # type: ignore[arg-type]
    reader.formats.apply(known(1))
    running = asyncio.get_running_loop().create_task(reader.run())
    try:
        feed = reader.join(ORDERS, [StandingReader(0)])
        tail.bring(written_by(2), written_by(1, offset=1))
        await until(lambda: tail.followed.get(ORDERS) is None)
        await until(lambda: tail.followed.get(ORDERS) == 0)
        assert (feed.end, tail.unread) == (0, 0)
        reader.formats.apply(known(1, 2))
        tail.bring(written_by(2))
        await until(lambda: feed.end == 1)
        assert bodies(feed.find(0)) == [b"7"]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_who_catches_up_waits_for_a_version_too() -> None:
    log, formats, fed = ScriptedFetches(), TopicFormats(), list[Batch]()
    formats.apply(known(1))
    catch_up = CatchUp(log, formats, retry_pause=SOON)  # type: ignore[arg-type]
    running = asyncio.get_running_loop().create_task(catch_up.run())
    try:
        catch_up.want(ORDERS, 0, lambda batch, _: fed.append(batch))
        await until(lambda: bool(log.asked))
        log.answer(written_by(2))
        await until(lambda: log.asked_in_all > 1)
        assert fed == []
        formats.apply(known(1, 2))
        log.answer(written_by(2))
        await until(lambda: bool(fed))
        assert bodies(fed[0]) == [b"7"]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_a_version_is_waited_for_only_so_long_and_each_for_itself() -> None:
    now = [0.0]
    wait, schemas = VersionWait(lambda: now[0]), AvroTopic(a_topic(1))
    assert not wait.holds(schemas, written_by(1))
    assert wait.holds(schemas, written_by(2))
    both = replace(written_by(4), records=[*written_by(4).records, *written_by(5).records])
    assert wait.holds(schemas, both)
    now[0] = WAIT_MAX.total_seconds()
    assert not wait.holds(schemas, written_by(2))
    assert not wait.holds(schemas, both)
    assert wait.holds(schemas, written_by(3))


def test_topics_are_what_they_were_last_said_to_be() -> None:
    formats = TopicFormats()
    assert formats.avro(ORDERS.topic) is None
    formats.apply(known(1))
    assert formats.avro(ORDERS.topic) is not None
    formats.apply(Changes(number=2, topics=(Topic(name=ORDERS.topic),)))
    assert formats.avro(ORDERS.topic) is None
    formats.apply(known(1))
    formats.apply(Changes(number=3, deleted_topics=frozenset({ORDERS.topic})))
    assert formats.avro(ORDERS.topic) is None


def test_a_prefix_of_a_schema_that_is_not_known_holds_its_chunk_as_a_version_does() -> None:
    chunk = Chunk(ORDERS, 0, 1, [Record(0, 0, None, b"\0" + (2).to_bytes(4) + b"\x0e", [])], 10)
    waiting = VersionWait()
    assert waiting.holds(AvroTopic(a_topic(1)), chunk)
    assert not waiting.holds(AvroTopic(a_topic(1, 2)), chunk)


def test_many_foreign_prefixes_end_no_waiting_for_versions_nor_of_other_topics() -> None:
    prefixes = [b"\0" + number.to_bytes(4) for number in range(2, VERSIONS_MAX + 3)]
    foreign = Chunk(ORDERS, 0, 1, [Record(0, 0, None, each, []) for each in prefixes], 10)
    wait, schemas = VersionWait(lambda: 0.0), AvroTopic(a_topic(1))
    assert wait.holds(schemas, foreign)
    assert wait.holds(schemas, written_by(2))
    other = replace(foreign, partition=Partition("other", 0), records=foreign.records[-1:])
    assert wait.holds(schemas, other)
    assert not wait.holds(schemas, replace(foreign, records=[Record(0, 0, None, b"\0abcd", [])]))

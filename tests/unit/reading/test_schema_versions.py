"""Messages whose schema is not known yet: waited for, in the tail and when catching up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from structlog.testing import capture_logs

from app.domain.catalogue.changes import Changes
from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.topic import Topic
from app.domain.errors import SchemaRegistryError
from app.domain.message import Partition, Record
from app.log.interface import Chunk
from app.schemas.formats import TopicFormats
from app.schemas.messages import AvroTopic
from app.schemas.versions import Registered, first_schema
from tests.fakes.reading import ORDERS, ScriptedFetches, ScriptedTail, StandingReader
from tests.fakes.schema_waits import Told, a_topic, prefixed, published, written_by
from tests.fakes.supervised import until
from workers.reading.catchup import CatchUp
from workers.reading.decoder import Decoder
from workers.reading.feed import Batch
from workers.reading.look_pauses import LOOK_AGAIN, LOOK_AGAIN_MAX, LookPauses, longer
from workers.reading.reader import Reader
from workers.reading.registered_schemas import SETTLING_S, TAKEN_OVER_MAX, RegisteredSchemas
from workers.reading.schema_versions import FORGET_AFTER, VERSIONS_MAX, WAIT_MAX, VersionWait

SOON = timedelta(milliseconds=1)


def known(*versions: int) -> Changes:
    return Changes(number=1, topics=(a_topic(*versions),))


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
    log, formats, on_batch = ScriptedFetches(), TopicFormats(), list[Batch]()
    formats.apply(known(1))
    catch_up = CatchUp(log, formats, retry_pause=SOON)  # type: ignore[arg-type]
    running = asyncio.get_running_loop().create_task(catch_up.run())
    try:
        catch_up.fetch(ORDERS, 0, lambda batch, _: on_batch.append(batch))
        await until(lambda: bool(log.asked))
        with capture_logs() as logs:
            for look in (1, 2, 3):
                log.answer(written_by(2))
                await until(lambda: log.asked_in_all > look)  # noqa: B023 - within this turn
        assert on_batch == []
        assert [each["pause_s"] for each in logs] == [0.002, 0.004, 0.008]
        assert {each["error"] for each in logs} == {"waits for version 2"}
        formats.apply(known(1, 2))
        log.answer(written_by(2))
        await until(lambda: bool(on_batch))
        assert bodies(on_batch[0]) == [b"7"]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_tail_waits_for_word_that_a_topic_has_become_avro() -> None:
    tail = ScriptedTail()
    reader = Reader(ScriptedFetches(), tail, look_again=SOON)  # type: ignore[arg-type]
    running = asyncio.get_running_loop().create_task(reader.run())
    try:
        feed = reader.join(ORDERS, [StandingReader(0)])
        tail.bring(written_by(1))
        await until(lambda: tail.followed.get(ORDERS) is None)
        await until(lambda: tail.followed.get(ORDERS) == 0)
        assert (feed.end, tail.unread) == (0, 0)
        reader.formats.apply(known(1))
        tail.bring(written_by(1))
        await until(lambda: feed.end == 1)
        assert bodies(feed.find(0)) == [b"7"]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_what_a_json_topic_has_is_not_waited_for_unless_it_is_published_avro() -> None:
    decoder = Decoder(TopicFormats(), VersionWait())
    for headers in ([(b"ct", b"avro/binary")], [(b"sv", b"1")], [(b"sv", b"1"), (b"ct", b"a/b")]):
        chunk = Chunk(ORDERS, 0, 1, [Record(0, 0, None, b"7", headers)], 10)
        assert bodies(decoder.batch(chunk)) == [b"7"]
    assert decoder.batch(written_by(1)) is None


def test_word_of_a_topic_is_waited_for_while_the_control_plane_cannot_be_asked() -> None:
    it = Told()
    it.known.read(queried_at=-1.0)
    assert it.wait.holds_topic(published(1))
    for it.now in (100.0, FORGET_AFTER.total_seconds() + 1, 10 * FORGET_AFTER.total_seconds()):
        assert it.wait.holds_topic(published(1))
    it.known.read(queried_at=it.now)
    assert not it.wait.holds_topic(published(1))


def test_word_that_was_asked_for_before_a_message_was_read_says_nothing_of_it() -> None:
    it, schemas = Told(), AvroTopic(a_topic(1))
    assert not it.wait.holds(schemas, published(1))
    it.now = 5.0
    assert it.wait.holds(schemas, published(2))
    it.now = FORGET_AFTER.total_seconds()
    it.known.read(queried_at=4.0)
    assert it.wait.holds(schemas, published(2))
    it.known.read(queried_at=5.0)
    assert not it.wait.holds(schemas, published(2))


def test_word_that_was_asked_for_after_a_message_was_read_is_final() -> None:
    it = Told()
    made = first_schema(ContentType.AVRO, '"int"')
    schemas = AvroTopic(replace(a_topic(1), schemas=made))
    for chunk in (published(2), written_by(2)):
        assert it.wait.holds(schemas, chunk)
        it.known.read(queried_at=it.now)
        assert not it.wait.holds(schemas, chunk)
        it.now += 1.0


def test_pauses_between_looks_grow() -> None:
    pauses, other = LookPauses(), Partition("other", 0)
    found = [pauses.next(ORDERS).total_seconds() for _ in range(7)]
    assert found == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert pauses.next(other) == LOOK_AGAIN
    pauses.end(ORDERS)
    assert pauses.next(ORDERS) == LOOK_AGAIN
    assert longer(2 * LOOK_AGAIN_MAX) == 2 * LOOK_AGAIN_MAX


async def test_the_tail_says_once_what_a_partition_waits_for() -> None:
    tail = ScriptedTail()
    reader = Reader(ScriptedFetches(), tail, look_again=SOON)  # type: ignore[arg-type]
    reader.formats.apply(known(1))
    running = asyncio.get_running_loop().create_task(reader.run())
    try:
        with capture_logs() as logs:
            feed = reader.join(ORDERS, [StandingReader(0)])
            for _ in range(3):
                tail.bring(published(2))
                await until(lambda: tail.followed.get(ORDERS) is None)
                await until(lambda: tail.followed.get(ORDERS) == 0)
            reader.formats.apply(known(1, 2))
            tail.bring(published(2), published(3, offset=1))
            await until(lambda: feed.end == 1 and tail.followed.get(ORDERS) is None)
        said = [each for each in logs if each["event"] == "schema_awaited"]
        assert [(each["at"], each["waits_for"]) for each in said] == [
            (0, "version 2"),
            (1, "version 3"),
        ]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_a_version_is_waited_for_only_so_long_after_word_and_each_for_itself() -> None:
    it, schemas = Told(), AvroTopic(a_topic(1))
    assert it.wait.holds(schemas, written_by(2))
    both = replace(written_by(4), records=[*written_by(4).records, *written_by(5).records])
    assert it.wait.holds(schemas, both)
    it.known.read(queried_at=1.0)
    assert it.wait.holds(schemas, both)
    it.now = WAIT_MAX.total_seconds()
    assert not it.wait.holds(schemas, written_by(2))
    assert not it.wait.holds(schemas, both)
    assert it.wait.holds(schemas, written_by(3))


def test_topics_are_what_they_were_last_said_to_be() -> None:
    formats = TopicFormats()
    assert formats.avro(ORDERS.topic) is None
    formats.apply(known(1))
    avro = formats.avro(ORDERS.topic)
    assert avro is not None
    # A topic that has not changed keeps the schemas that were made for it.
    formats.apply(known(1))
    assert formats.avro(ORDERS.topic) is avro
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


class ScriptedRegistry:
    """A registry with the versions and ids that a test gives it, or that does not answer."""

    def __init__(self, **texts: str) -> None:
        self.has = {int(name[1:]): text for name, text in texts.items()}
        self.is_down = False
        self.breaks = False
        self.listed: asyncio.Queue[str] = asyncio.Queue()
        self.asked: list[int] = []

    async def versions(self, topic: str) -> list[int]:
        self.listed.put_nowait(topic)
        if self.breaks:
            raise RuntimeError("a defect")
        if self.is_down:
            raise SchemaRegistryError("it does not answer")
        return sorted(self.has)

    async def version(self, topic: str, number: int) -> Registered | None:
        del topic
        self.asked.append(number)
        return Registered(version=number, id=number, text=self.has[number])


class Asked:
    """A wait with a registry behind it, and a clock that stands still."""

    def __init__(self, registry: ScriptedRegistry) -> None:
        self.now = 0.0
        self.registry = registry
        self.formats = TopicFormats()
        self.formats.apply(known(1))
        self.registered = RegisteredSchemas(registry, self.formats, clock=lambda: self.now)
        self.wait = VersionWait(lambda: self.now, registered=self.registered)

    def holds(self, chunk: Chunk) -> bool:
        schemas = self.formats.avro(ORDERS.topic)
        assert schemas is not None
        return self.wait.holds(schemas, chunk)

    async def looked(self) -> None:
        """Return when the registry was asked once more, and its answer is known."""
        async with asyncio.timeout(60):
            await self.registry.listed.get()
        await self.idle()

    async def idle(self) -> None:
        """Let whatever is under way end."""
        for _ in range(5):
            await asyncio.sleep(0)


@asynccontextmanager
async def asked(registry: ScriptedRegistry) -> AsyncIterator[Asked]:
    found = Asked(registry)
    running = asyncio.get_running_loop().create_task(found.registered.run())
    try:
        yield found
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_id_that_is_not_known_is_looked_up_in_the_registry_at_once() -> None:
    async with asked(ScriptedRegistry(v2='"int"', v3='"long"')) as it:
        assert it.holds(prefixed(2))
        await it.looked()
        assert not it.holds(prefixed(2))
        assert it.registry.asked == [2, 3]
    avro = it.formats.avro(ORDERS.topic)
    assert avro is not None
    assert avro.message(prefixed(2).records[0], ORDERS).body == b"7"


async def test_an_id_that_the_registry_does_not_have_twice_is_waited_for_no_longer() -> None:
    async with asked(ScriptedRegistry(v1='"int"')) as it:
        assert it.holds(prefixed(9))
        await it.looked()
        assert it.holds(prefixed(9))
        await it.idle()
        assert it.registry.listed.empty()
        it.now = SETTLING_S
        assert it.holds(prefixed(9))
        await it.looked()
        assert not it.holds(prefixed(9))
        # And so is each message with it from then on: nothing is asked for it.
        it.now = FORGET_AFTER.total_seconds() - 1
        assert not it.holds(prefixed(9, offset=5))
        await it.idle()
        assert it.registry.listed.empty()


async def test_ids_of_more_versions_than_one_look_takes_are_not_denied() -> None:
    many = {f"v{number}": '"int"' for number in range(2, 3 * TAKEN_OVER_MAX)}
    async with asked(ScriptedRegistry(**many)) as it:
        for look in range(3):
            it.now = look * SETTLING_S
            assert it.holds(prefixed(3))
            await it.looked()
            # Each look of so many versions takes its turns.
            for _ in range(2 * TAKEN_OVER_MAX):
                await asyncio.sleep(0)
        assert not it.holds(prefixed(3))
    assert sorted(it.registry.asked) == list(range(2, 3 * TAKEN_OVER_MAX))


async def test_a_registry_that_does_not_answer_denies_nothing() -> None:
    registry = ScriptedRegistry(v2='"int"')
    registry.is_down = True
    async with asked(registry) as it:
        for second in range(3):
            it.now = float(second)
            assert it.holds(prefixed(2))
            await it.looked()
        registry.is_down, registry.breaks = False, True
        it.now = 3.0
        assert it.holds(prefixed(2))
        await it.looked()
        registry.breaks = False
        it.now = 4.0
        assert it.holds(prefixed(2))
        await it.looked()
        assert not it.holds(prefixed(2))


async def test_a_registered_text_that_is_no_schema_is_asked_for_once() -> None:
    async with asked(ScriptedRegistry(v2='{"type": "nothing"}')) as it:
        for second in range(2):
            it.now = float(second)
            assert it.holds(prefixed(2))
            await it.looked()
        assert not it.holds(prefixed(2))
        assert it.registry.asked == [2]


async def test_the_registry_denies_no_version_that_a_header_names() -> None:
    async with asked(ScriptedRegistry()) as it:
        for second in range(3):
            it.now = float(second)
            assert it.holds(written_by(2))
            await it.looked()


def test_what_was_waited_for_in_vain_is_forgotten_and_makes_room() -> None:
    now = [0.0]
    wait, schemas = VersionWait(lambda: now[0]), AvroTopic(a_topic(1))
    foreign = [prefixed(number).records[0] for number in range(2, VERSIONS_MAX + 2)]
    assert wait.holds(schemas, Chunk(ORDERS, 0, 1, foreign, 10))
    now[0] = WAIT_MAX.total_seconds()
    assert not wait.holds(schemas, Chunk(ORDERS, 0, 1, foreign, 10))
    assert not wait.holds(schemas, prefixed(VERSIONS_MAX + 5))
    now[0] = FORGET_AFTER.total_seconds()
    assert wait.holds(schemas, prefixed(VERSIONS_MAX + 5))
    assert wait.holds(schemas, prefixed(2))


def test_what_was_learned_is_kept_until_the_control_plane_has_it() -> None:
    formats = TopicFormats()
    formats.apply(known(1))
    formats.learn(ORDERS.topic, [Registered(version=2, id=2, text='"long"')])
    assert formats.versions(ORDERS.topic) == {1, 2}
    formats.apply(known(1, 3))
    assert formats.versions(ORDERS.topic) == {1, 2, 3}
    formats.apply(Changes(number=3, deleted_topics=frozenset({ORDERS.topic})))
    formats.apply(known(1))
    assert formats.versions(ORDERS.topic) == {1}
    formats.learn("shop.nothing", [Registered(version=2, id=2, text='"long"')])
    assert formats.versions("shop.nothing") == frozenset()

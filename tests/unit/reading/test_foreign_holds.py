"""How long records of foreign producers, and what only looks like a version, hold a partition."""

from dataclasses import replace

from app.domain.catalogue.schema import ContentType
from app.domain.message import Partition, Record
from app.log.interface import Chunk
from app.schemas.messages import VERSIONS_AHEAD_MAX, AvroTopic
from app.schemas.versions import first_schema
from tests.fakes.reading import ORDERS
from tests.fakes.schema_waits import Told, a_topic, prefixed, published, written_by
from workers.reading.hold_budget import HELD_MAX, HOUR
from workers.reading.look_pauses import LOOK_AGAIN_MAX, LookPauses
from workers.reading.schema_versions import VERSIONS_MAX, WAIT_MAX

NO_VERSIONS = (b"", b"0", b"02", b"-1", b"1.2.3", b"99999", b"9" * 100_000, "\u0662".encode())


def test_what_can_be_no_version_to_come_is_not_waited_for() -> None:
    it, schemas = Told(), AvroTopic(a_topic(1))
    for named in (*NO_VERSIONS, b"%d" % (VERSIONS_AHEAD_MAX + 2)):
        assert not it.wait.holds(schemas, published(named))
    many = [published(number).records[0] for number in range(1_000, 1_000 + VERSIONS_MAX)]
    assert not it.wait.holds(schemas, Chunk(ORDERS, 0, 1, many, 10))
    assert it.wait.holds(schemas, published(VERSIONS_AHEAD_MAX + 1))


def test_a_topic_without_word_of_it_is_not_waited_for_by_what_names_no_version() -> None:
    for named in (b"", b"0", b"1.2.3", b"9" * 100_000):
        assert not Told().wait.holds_topic(published(named))


def test_foreign_records_hold_nothing_for_an_outage() -> None:
    it, schemas = Told(), AvroTopic(a_topic(1))
    place = b"%s/0/7" % ORDERS.topic.encode()
    headers = [(b"id", place), (b"rs", b"0/7"), (b"sv", b"3"), (b"ct", b"avro/binary")]
    sent_again = replace(written_by(3), records=[Record(0, 0, None, b"\x0e", headers)])
    assert it.wait.holds(schemas, written_by(2))
    assert it.wait.holds(schemas, published(2))
    assert it.wait.holds_topic(written_by(2))
    assert it.wait.holds_topic(published(2))
    it.now = WAIT_MAX.total_seconds()
    assert not it.wait.holds(schemas, written_by(2))
    assert it.wait.holds(schemas, published(2))
    assert not it.wait.holds_topic(written_by(2))
    assert it.wait.holds_topic(published(2))
    it = Told()
    assert it.wait.holds(schemas, sent_again)
    it.now = WAIT_MAX.total_seconds()
    assert not it.wait.holds(schemas, sent_again)


def test_foreign_records_in_vain_say_nothing_of_what_is_published_here() -> None:
    it, schemas = Told(), AvroTopic(a_topic(1))
    assert it.wait.holds(schemas, written_by(2))
    it.known.read(queried_at=it.now)
    it.now = WAIT_MAX.total_seconds()
    assert not it.wait.holds(schemas, written_by(2))
    assert it.wait.holds(schemas, published(2))


def held_s(it: Told, numbers: range) -> float:
    """How long ids that are not known hold a partition, one after the other."""
    began, schemas, pauses = it.now, AvroTopic(a_topic(1)), LookPauses()
    for number in numbers:
        while it.wait.holds(schemas, prefixed(number)):
            it.now += pauses.next(ORDERS).total_seconds()
        pauses.end(ORDERS)
    return it.now - began


def test_foreign_records_one_after_the_other_hold_a_topic_for_so_long_in_an_hour() -> None:
    it, schemas = Told(), AvroTopic(a_topic(1))
    most = (HELD_MAX + LOOK_AGAIN_MAX).total_seconds()
    assert WAIT_MAX.total_seconds() < held_s(it, range(2, 1_200)) <= most
    assert it.wait.holds(schemas, published(2))
    other = replace(prefixed(2), partition=Partition("other", 0))
    assert it.wait.holds(schemas, other)
    it.now = HOUR.total_seconds()
    assert WAIT_MAX.total_seconds() < held_s(it, range(2_000, 2_100)) <= most


def test_short_waits_count_to_their_ends() -> None:
    it = Told()
    schemas = AvroTopic(replace(a_topic(1), schemas=first_schema(ContentType.AVRO, '"int"')))
    for number in range(2, 2 + VERSIONS_AHEAD_MAX):
        held = it.wait.holds(schemas, written_by(number))
        assert held is (it.now < HELD_MAX.total_seconds())
        it.now += 5.0
        it.known.read(queried_at=it.now - 1)
        assert not it.wait.holds(schemas, written_by(number))


def test_what_waits_together_counts_once() -> None:
    it, schemas = Told(), AvroTopic(a_topic(1))
    both = replace(prefixed(2), records=[*prefixed(2).records, *prefixed(3).records])
    for it.now in (0.0, 20.0, 40.0):
        assert it.wait.holds(schemas, both)
    it.now = 50.0
    assert it.wait.holds(schemas, prefixed(4))

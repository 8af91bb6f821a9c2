"""Waiting for versions of schemas: a message may be here before word of its schema is."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from time import monotonic
from typing import Final, NamedTuple

from app.domain.message import HEADER_CONTENT_TYPE, HEADER_SCHEMA_VERSION, Record
from app.log.interface import Chunk
from app.schemas.formats import TopicFormats
from app.schemas.messages import (
    AVRO,
    PREFIX_LENGTH,
    AvroTopic,
    is_version,
    was_published_here,
)
from workers.reading.hold_budget import HoldBudget
from workers.reading.known_changes import KnownChanges
from workers.reading.registered_schemas import RegisteredSchemas

# For a version that a registry has, which does not answer: an API process looks at it every 30
# seconds, and word of a change takes 5 at worst while the database is up.
WAIT_MAX: Final = timedelta(seconds=45)
# Of each topic, versions that are waited for, or were in vain, within FORGET_AFTER; and as many
# prefixes, and versions that foreign records name. No more are waited for.
VERSIONS_MAX: Final = 1_000
# What was in vain is waited for again.
FORGET_AFTER: Final = timedelta(hours=1)
# So many of those that are waited for are told.
TOLD_MAX: Final = 5


class _Written(NamedTuple):
    """By what records are written: a version that a header names, or else a prefix."""

    topic: str
    by: bytes
    is_named: bool
    # Only what names a version can be: all that is published as Avro does.
    is_ours: bool

    def __str__(self) -> str:
        if not self.by:
            return "word that the topic is AVRO"
        if self.is_named:
            return f"version {self.by.decode('latin-1')}"
        return f"schema {int.from_bytes(self.by)}"


class VersionWait:
    """Finds chunks that cannot be read yet.

    What is published here as Avro names its version, which the control plane had before. So it
    waits until that was queried, however long the database is away, and not any longer. Foreign
    records hold a chunk for WAIT_MAX at most, and a topic no longer than a HoldBudget allows. What
    a registry may have waits for the registry, too: it is queried at once, and its answer that
    there is none ends that. After that the messages are unreadable, and discarded with that reason.
    So are at once those that name what cannot be a version. Meanwhile the partition stands still:
    the filters of its subscriptions cannot look at them, nor be skipped.
    """

    def __init__(
        self,
        clock: Callable[[], float] = monotonic,
        *,
        registered: RegisteredSchemas | None = None,
        known: KnownChanges | None = None,
    ) -> None:
        self._clock = clock
        self._known = known or KnownChanges(clock)
        self._registered = registered or RegisteredSchemas(None, TopicFormats(), clock=clock)
        self._budget = HoldBudget()
        # What the chunk that was held last waits for.
        self.awaited = ""
        # Apart, so that foreign records of a topic use up neither its versions nor other topics'.
        # When each was read first, the oldest first.
        self._since: dict[tuple[str, bool, bool], dict[bytes, float]] = {}

    def holds(self, schemas: AvroTopic, chunk: Chunk) -> bool:
        """Whether the chunk is to be read again, a little later."""
        topic = chunk.partition.topic
        unknown = {_written(topic, each) for each in chunk.records if not schemas.knows(each)}
        possible = [each for each in unknown if not each.is_named or schemas.may_get(each.by)]
        return self._holds(possible, is_registered=schemas.is_registered)

    def holds_topic(self, chunk: Chunk) -> bool:
        """Whether a JSON topic's chunk is to be read again: word that it is AVRO may be late."""
        topic = chunk.partition.topic
        marked = (_written(topic, each) for each in chunk.records if _is_marked(each))
        # Word of the topic is one thing, whatever the versions are. No version is empty.
        return self._holds({each._replace(by=b"") for each in marked}, is_registered=False)

    def _holds(self, unknown: Iterable[_Written], *, is_registered: bool) -> bool:
        now = self._clock()
        # All of them from now on, and not one after the other.
        waiting = [each for each in unknown if self._waits(each, now, is_registered=is_registered)]
        if waiting:
            self._registered.fetch(waiting[0].topic)
            self.awaited = ", ".join(str(each) for each in waiting[:TOLD_MAX])
        return bool(waiting)

    def _waits(self, each: _Written, now: float, *, is_registered: bool) -> bool:
        since = self._first_read(each, now)
        if since is None:
            return False
        if each.is_ours:
            return not self._known.include(since)
        self._budget.count(each.topic, each, now)
        is_final = self._is_final(each, since, is_registered=is_registered)
        if is_final or not self._may_hold(each.topic, since, now):
            self._budget.end(each.topic, each)
            return False
        self._budget.begin(each.topic, each, now)
        return True

    def _is_final(self, each: _Written, since: float, *, is_registered: bool) -> bool:
        """Whether all were asked that may know what a foreign record is written by."""
        if each.is_named and not self._known.include(since):
            return False
        return not is_registered or self._registered.denies(each.topic, since)

    def _may_hold(self, topic: str, since: float, now: float) -> bool:
        """Whether a foreign record may hold up its topic, and its neighbours with it."""
        return now - since < WAIT_MAX.total_seconds() and self._budget.allows(topic, now)

    def _first_read(self, each: _Written, now: float) -> float | None:
        """When it was; None: there are too many others."""
        kind, version = (each.topic, each.is_named, each.is_ours), each.by
        known = self._since.get(kind, {})
        if version in known and now - known[version] < FORGET_AFTER.total_seconds():
            return known[version]
        self._forget(now)
        known = self._since.setdefault(kind, {})
        if len(known) >= VERSIONS_MAX:
            return None
        known[version] = now
        return now

    def _forget(self, now: float) -> None:
        """Drop what was read first long ago; seldom, as often as something new is read."""
        until = now - FORGET_AFTER.total_seconds()
        for kind, known in list(self._since.items()):
            while known and next(iter(known.values())) <= until:
                del known[next(iter(known))]
            if not known:
                del self._since[kind]


def _written(topic: str, record: Record) -> _Written:
    version = record.header(HEADER_SCHEMA_VERSION)
    if version is None:
        prefix = (record.value or b"")[:PREFIX_LENGTH]
        return _Written(topic, prefix, is_named=False, is_ours=False)
    is_ours = was_published_here(record, topic)
    return _Written(topic, version, is_named=True, is_ours=is_ours)


def _is_marked(record: Record) -> bool:
    """Whether it says that it is published in Avro."""
    version = record.header(HEADER_SCHEMA_VERSION)
    if version is None or not is_version(version):
        return False
    return record.header(HEADER_CONTENT_TYPE) == AVRO

"""Waits for schema versions: a message may arrive before the news of its schema."""

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

# For a version in a registry that does not answer: an API process polls it every 30 seconds, and
# news of a change takes at most 5 more while the database is up.
WAIT_MAX: Final = timedelta(seconds=45)
# For each topic, versions that are awaited or were awaited in vain within FORGET_AFTER; and as many
# prefixes, and as many versions named by foreign records. No more are awaited.
VERSIONS_MAX: Final = 1_000
# After this time a version that was awaited in vain is awaited again.
FORGET_AFTER: Final = timedelta(hours=1)
# At most this many awaited versions are named in the status.
TOLD_MAX: Final = 5


class _Written(NamedTuple):
    """The schema of records: a version that a header names, or else a prefix."""

    topic: str
    by: bytes
    is_named: bool
    # True only if it names a possible version, as all Avro records of Angelia do.
    is_ours: bool

    def __str__(self) -> str:
        if not self.by:
            return "word that the topic is AVRO"
        if self.is_named:
            return f"version {self.by.decode('latin-1')}"
        return f"schema {int.from_bytes(self.by)}"


class VersionWait:
    """Finds chunks that cannot be read yet.

    An Avro record of Angelia names a version that the control plane had before. So the chunk waits
    until the control plane was read, however long the database is down, and no longer. Records of
    foreign producers delay a chunk by at most WAIT_MAX, and a topic by at most its HoldBudget. If a
    registry may have the version, it is queried immediately, and the wait ends when it answers that
    there is none. After the wait the messages are unreadable, and are discarded with that reason;
    so are, immediately, messages that name an impossible version. During the wait the whole
    partition waits: filters can neither judge these messages nor skip them.
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
        # What the last waiting chunk waits for.
        self.awaited = ""
        # Kept apart, so that foreign records of a topic do not use up the places for its own
        # versions or those of other topics. By the time of the first read, the oldest first.
        self._since: dict[tuple[str, bool, bool], dict[bytes, float]] = {}

    def holds(self, schemas: AvroTopic, chunk: Chunk) -> bool:
        """Whether the chunk must be read again a little later."""
        topic = chunk.partition.topic
        unknown = {_written(topic, each) for each in chunk.records if not schemas.knows(each)}
        possible = [each for each in unknown if not each.is_named or schemas.may_get(each.by)]
        return self._holds(possible, is_registered=schemas.is_registered)

    def holds_topic(self, chunk: Chunk) -> bool:
        """Whether a JSON topic's chunk must be read again: the news that it is AVRO may be late."""
        topic = chunk.partition.topic
        marked = (_written(topic, each) for each in chunk.records if _is_marked(each))
        # News of the topic is one thing, whatever the versions are. No version is empty.
        return self._holds({each._replace(by=b"") for each in marked}, is_registered=False)

    def _holds(self, unknown: Iterable[_Written], *, is_registered: bool) -> bool:
        now = self._clock()
        # The wait for all of them starts now, and not for one after the other.
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
        """Whether every source that may know a foreign record's schema was queried."""
        if each.is_named and not self._known.include(since):
            return False
        return not is_registered or self._registered.denies(each.topic, since)

    def _may_hold(self, topic: str, since: float, now: float) -> bool:
        """Whether a foreign record may delay its topic, and other records of the partition."""
        return now - since < WAIT_MAX.total_seconds() and self._budget.allows(topic, now)

    def _first_read(self, each: _Written, now: float) -> float | None:
        """Return when it was first read; None if too many others are awaited."""
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
        """Drop entries from long ago, once for each new entry."""
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
    """Whether the record is marked as Avro."""
    version = record.header(HEADER_SCHEMA_VERSION)
    if version is None or not is_version(version):
        return False
    return record.header(HEADER_CONTENT_TYPE) == AVRO

"""Waits for schema versions: a message may arrive before its schema is known here."""

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

# The longest wait for a version in a registry that does not answer. An API process polls the
# registry every 30 seconds, and this worker learns about a change at most 5 seconds later while the
# database is up.
WAIT_MAX: Final = timedelta(seconds=45)
# The maximum number of waits of each kind for a topic: for its own versions, for prefixes, and for
# versions that other producers name. A wait counts until FORGET_AFTER. Above this number, nothing
# is waited for.
VERSIONS_MAX: Final = 1_000
# After this time, a chunk may wait again for a version that did not come.
FORGET_AFTER: Final = timedelta(hours=1)
# The maximum number of missing versions that the status names.
TOLD_MAX: Final = 5


class _Written(NamedTuple):
    """How a record names its schema: by a version in a header, or else by a prefix of the body."""

    topic: str
    by: bytes
    is_named: bool
    # True only if the header names a possible version. All Avro records of Angelia name one.
    is_ours: bool

    def __str__(self) -> str:
        if not self.by:
            return "word that the topic is AVRO"
        if self.is_named:
            return f"version {self.by.decode('latin-1')}"
        return f"schema {int.from_bytes(self.by)}"


class VersionWait:
    """Decides which chunks must wait, because their schemas are not known yet.

    An Avro record of Angelia names a version that the database already has. So the chunk waits
    until the changes are read from the database, however long the database is down. Records of
    other producers delay a chunk by at most WAIT_MAX, and a topic by at most its HoldBudget. If a
    registry may have the version, the registry is queried immediately. The wait ends if its answer
    is that there is no such version. After the wait the messages count as unreadable and are
    discarded. Messages that name an impossible version are discarded immediately. During the wait
    the whole partition waits: filters can neither judge these messages nor skip them.
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
        # The versions or schemas for which the last waiting chunk waits.
        self.awaited = ""
        # When each unknown schema was first read, the oldest first, by topic and kind. Records of
        # other producers are counted separately, so that they do not use up the places of the
        # topic's own versions.
        self._since: dict[tuple[str, bool, bool], dict[bytes, float]] = {}

    def holds(self, schemas: AvroTopic, chunk: Chunk) -> bool:
        """Return whether the chunk must be read again a little later."""
        topic = chunk.partition.topic
        unknown = {_written(topic, each) for each in chunk.records if not schemas.knows(each)}
        possible = [each for each in unknown if not each.is_named or schemas.may_get(each.by)]
        return self._holds(possible, is_registered=schemas.is_registered)

    def holds_topic(self, chunk: Chunk) -> bool:
        """Return whether a JSON topic's chunk must be read again.

        This worker may not know yet that the topic is AVRO now.
        """
        topic = chunk.partition.topic
        marked = (_written(topic, each) for each in chunk.records if _is_marked(each))
        # Wait once for the topic's change to AVRO, for all versions together. An empty version
        # stands for this wait.
        return self._holds({each._replace(by=b"") for each in marked}, is_registered=False)

    def _holds(self, unknown: Iterable[_Written], *, is_registered: bool) -> bool:
        now = self._clock()
        # Start all waits now, so that they run at the same time.
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
        """Whether each source that may know a foreign record's schema was queried in vain."""
        if each.is_named and not self._known.include(since):
            return False
        return not is_registered or self._registered.denies(each.topic, since)

    def _may_hold(self, topic: str, since: float, now: float) -> bool:
        """Whether a record of another producer may still delay its topic.

        It then also delays the other records of its partition.
        """
        return now - since < WAIT_MAX.total_seconds() and self._budget.allows(topic, now)

    def _first_read(self, each: _Written, now: float) -> float | None:
        """Return when the record's schema was first missing.

        None if there are too many other waits.
        """
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
        """Drop old entries. This runs once for each new entry."""
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

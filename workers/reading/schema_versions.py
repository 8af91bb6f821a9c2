"""Waits for schema versions: a message may arrive before this worker knows its schema."""

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

# The longest time for which a chunk waits for a version from a registry that does not answer. An
# API process polls the registry every 30 seconds, and this worker learns about a change at most 5
# seconds later while the database is up.
WAIT_MAX: Final = timedelta(seconds=45)
# The maximum number of unknown schemas of each kind for which the chunks of a topic wait. The kinds
# are: versions that Angelia wrote, versions that other producers wrote, and ids in bodies. An
# unknown schema counts until FORGET_AFTER. Chunks do not wait for further schemas.
VERSIONS_MAX: Final = 1_000
# A chunk that waited in vain for a version may wait for this version again after this time.
FORGET_AFTER: Final = timedelta(hours=1)
# The maximum number of missing schemas that the text `awaited` names.
NAMED_MAX: Final = 5


class _Written(NamedTuple):
    """How a record names its schema.

    Attributes:
        topic: The topic of the record.
        by: The version of the schema, from a header. Without this header, the id of the schema,
            from the first bytes of the body.
        is_named: Whether `by` is the version from the header.
        is_ours: Whether Angelia wrote the record, so that the database has the version.
    """

    topic: str
    by: bytes
    is_named: bool
    is_ours: bool

    def __str__(self) -> str:
        if not self.by:
            return "word that the topic is AVRO"
        if self.is_named:
            return f"version {self.by.decode('latin-1')}"
        return f"schema {int.from_bytes(self.by)}"


class VersionWait:
    """Decides which chunks must wait, because their schemas are not known yet.

    An Avro record of Angelia names a version that the database already has. So a chunk with such a
    record waits until this worker has read all changes from the database, even if the database is
    down for long. Records of other producers delay a chunk by at most WAIT_MAX, and a topic by at
    most its HoldBudget. If a registry may have the version, the registry is queried immediately. If
    the registry answers that it does not have the version, the chunk waits no longer. If a schema
    is still unknown when the chunk has waited long enough, the messages with this schema count as
    unreadable and are discarded. Messages that name an impossible version are discarded
    immediately. The whole partition waits with the chunk, because a filter can neither judge these
    messages nor skip them.
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
        # The versions or schemas, as text, for which the last delayed chunk waits.
        self.awaited = ""
        # For each unknown schema, by topic and kind, when a record with this schema was first read,
        # the oldest first. Schemas that other producers name have kinds of their own. So even
        # VERSIONS_MAX of these schemas do not use up the places of versions that Angelia wrote.
        self._since: dict[tuple[str, bool, bool], dict[bytes, float]] = {}

    def holds(self, schemas: AvroTopic, chunk: Chunk) -> bool:
        """Return whether the chunk must wait for a schema, and be read again a little later."""
        topic = chunk.partition.topic
        unknown = {_written(topic, each) for each in chunk.records if not schemas.knows(each)}
        possible = [each for each in unknown if not each.is_named or schemas.may_get(each.by)]
        return self._holds(possible, is_registered=schemas.is_registered)

    def holds_topic(self, chunk: Chunk) -> bool:
        """Return whether a JSON topic's chunk with Avro records must be read again later.

        The topic may have become AVRO, and this worker may not know this change yet.
        """
        topic = chunk.partition.topic
        marked = (_written(topic, each) for each in chunk.records if _is_marked(each))
        # All Avro records of a JSON topic wait for the topic's change to AVRO, whatever versions
        # they name. So they are all treated as records with an empty version, and wait together.
        return self._holds({each._replace(by=b"") for each in marked}, is_registered=False)

    def _holds(self, unknown: Iterable[_Written], *, is_registered: bool) -> bool:
        now = self._clock()
        # Begin to wait for all unknown schemas of the chunk at once, and not for one after another.
        # So the waiting times run at the same time.
        waiting = [each for each in unknown if self._waits(each, now, is_registered=is_registered)]
        if waiting:
            self._registered.fetch(waiting[0].topic)
            self.awaited = ", ".join(str(each) for each in waiting[:NAMED_MAX])
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
        """Whether neither the database nor the registry has the schema of a foreign record."""
        if each.is_named and not self._known.include(since):
            return False
        return not is_registered or self._registered.denies(each.topic, since)

    def _may_hold(self, topic: str, since: float, now: float) -> bool:
        """Whether a foreign record that was first read at `since` may still delay its partition.

        The limits are WAIT_MAX for the record, and the HoldBudget for the topic.
        """
        return now - since < WAIT_MAX.total_seconds() and self._budget.allows(topic, now)

    def _first_read(self, each: _Written, now: float) -> float | None:
        """Return when a record with this unknown schema was first read.

        The result is None if VERSIONS_MAX other schemas of this kind are unknown already.
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
        """Drop unknown schemas that were first read more than FORGET_AFTER ago."""
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

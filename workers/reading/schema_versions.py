"""Waiting for versions of schemas: a message may be here before word of its schema is."""

from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Final

from app.domain.message import HEADER_SCHEMA_VERSION, Record
from app.log.interface import Chunk
from app.schemas.formats import TopicFormats
from app.schemas.messages import PREFIX_LENGTH, AvroTopic
from workers.reading.known_changes import KnownChanges
from workers.reading.registered_schemas import RegisteredSchemas

# For a version that a registry has, which does not answer: an API process looks at it every 30
# seconds, and word of a change takes 5 at worst while the database is up.
WAIT_MAX: Final = timedelta(seconds=45)
LOOK_AGAIN: Final = timedelta(milliseconds=200)
# Of each topic, versions that are waited for, or were in vain, within FORGET_AFTER; and as many
# prefixes. No more are waited for.
VERSIONS_MAX: Final = 1_000
# What was in vain is waited for again.
FORGET_AFTER: Final = timedelta(hours=1)


class VersionWait:
    """Finds chunks that cannot be read yet.

    What is published here as Avro names its version, which the control plane had before. So it
    waits until that was queried, however long the database is away. An id of a registry holds a
    chunk for WAIT_MAX at most: the registry is queried at once, and its answer that there is none
    ends that. After that the messages are unreadable, and discarded with that reason. Meanwhile the
    partition stands still: the filters of its subscriptions cannot look at them, nor be skipped.
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
        # Apart, so that foreign records of a topic use up neither its versions nor other topics'.
        # When each was read first, the oldest first.
        self._since: dict[tuple[str, bool], dict[bytes, float]] = {}

    def holds(self, schemas: AvroTopic, chunk: Chunk) -> bool:
        """Whether the chunk is to be read again, a little later."""
        topic, now = chunk.partition.topic, self._clock()
        unknown = {_written_by(record) for record in chunk.records if not schemas.knows(record)}
        # All of them from now on, and not one after the other.
        waiting = [self._waits((topic, named), each, now) for named, each in unknown]
        return any(waiting)

    def holds_topic(self, topic: str) -> bool:
        """Whether Avro in a JSON topic is to be read again: word that it is AVRO may be late."""
        # No version is empty.
        since = self._first_read((topic, True), b"", self._clock())
        return since is not None and not self._known.include(since)

    def _waits(self, kind: tuple[str, bool], version: bytes, now: float) -> bool:
        since = self._first_read(kind, version, now)
        if since is None:
            return False
        topic, named = kind
        waits = now - since < WAIT_MAX.total_seconds()
        if named:
            waits |= not self._known.include(since)
        else:
            waits &= not self._registered.denies(topic, since)
        if waits:
            self._registered.fetch(topic)
        return waits

    def _first_read(self, kind: tuple[str, bool], version: bytes, now: float) -> float | None:
        """When it was; None: there are too many others."""
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


def _written_by(record: Record) -> tuple[bool, bytes]:
    """Whether a header names the version, and that or else the prefix."""
    version = record.header(HEADER_SCHEMA_VERSION)
    return (True, version) if version else (False, (record.value or b"")[:PREFIX_LENGTH])

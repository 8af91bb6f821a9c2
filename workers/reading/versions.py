"""Waiting for versions of schemas: a message may be here before word of its schema is."""

from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Final

from app.domain.message import HEADER_SCHEMA_VERSION, Record
from app.log.interface import Chunk
from app.schemata.messages import PREFIX_LENGTH, AvroTopic

# An API process looks at a registry every 30 seconds, and word of a change takes 5 at worst while
# the database is up.
WAIT_MAX: Final = timedelta(seconds=45)
LOOK_AGAIN: Final = timedelta(milliseconds=200)
# Of each topic, versions that are waited for at a time, or were in vain; and as many prefixes.
VERSIONS_MAX: Final = 1_000


class VersionWait:
    """Says which chunks cannot be read yet, each unknown version holding them for WAIT_MAX.

    After that its messages are unreadable, and discarded with that reason. Meanwhile the partition
    stands still: the filters of its subscriptions cannot look at them, nor be skipped.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        # Apart, so that foreign records of a topic use up neither its versions nor other topics'.
        self._since: dict[tuple[str, bool], dict[bytes, float]] = {}

    def holds(self, schemas: AvroTopic, chunk: Chunk) -> bool:
        """Whether the chunk is to be read again, a little later."""
        topic, now = chunk.partition.topic, self._clock()
        unknown = {_written_by(record) for record in chunk.records if not schemas.knows(record)}
        # All of them from now on, and not one after the other.
        waiting = [self._waits((topic, named), each, now) for named, each in unknown]
        return any(waiting)

    def _waits(self, kind: tuple[str, bool], version: bytes, now: float) -> bool:
        since = self._since.setdefault(kind, {})
        if version not in since and len(since) >= VERSIONS_MAX:
            return False
        return now - since.setdefault(version, now) < WAIT_MAX.total_seconds()


def _written_by(record: Record) -> tuple[bool, bytes]:
    """Whether a header names the version, and that or else the prefix."""
    version = record.header(HEADER_SCHEMA_VERSION)
    return (True, version) if version else (False, (record.value or b"")[:PREFIX_LENGTH])

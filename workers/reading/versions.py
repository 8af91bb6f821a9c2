"""Waiting for versions of schemas: a message may be here before word of its schema is."""

from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Final

from app.domain.message import HEADER_SCHEMA_VERSION
from app.log.interface import Chunk
from app.schemata.messages import PREFIX_LENGTH, AvroTopic

# An API process looks at a registry every 30 seconds, and word of a change takes 5 at worst while
# the database is up.
WAIT_MAX: Final = timedelta(seconds=45)
LOOK_AGAIN: Final = timedelta(milliseconds=200)
# Versions that are waited for at a time, or were in vain.
VERSIONS_MAX: Final = 1_000


class VersionWait:
    """Says which chunks cannot be read yet, each unknown version holding them for WAIT_MAX.

    After that its messages are unreadable, and discarded with that reason. Meanwhile the partition
    stands still: the filters of its subscriptions cannot look at them, nor be skipped.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._since: dict[tuple[str, bytes], float] = {}

    def holds(self, schemas: AvroTopic, chunk: Chunk) -> bool:
        """Whether the chunk is to be read again, a little later."""
        topic, now = chunk.partition.topic, self._clock()
        unknown = {
            record.header(HEADER_SCHEMA_VERSION) or (record.value or b"")[:PREFIX_LENGTH]
            for record in chunk.records
            if not schemas.knows(record)
        }
        # All of them from now on, and not one after the other.
        waiting = [self._waits((topic, version), now) for version in unknown]
        return any(waiting)

    def _waits(self, version: tuple[str, bytes], now: float) -> bool:
        if version not in self._since and len(self._since) >= VERSIONS_MAX:
            return False
        return now - self._since.setdefault(version, now) < WAIT_MAX.total_seconds()

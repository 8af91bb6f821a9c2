"""Records in the history what happens in the log, and unexpected errors of the product."""

from collections.abc import Collection, MutableMapping, Sequence
from typing import Any, Final

import structlog

from app.domain.commit import parse_progress
from app.domain.discards.retractions import entry_of
from app.domain.discards.undelivered import Undelivered
from app.domain.message import HEADER_ID, NewRecord, Partition, Record
from app.domain.streams import OWN, UNDELIVERED
from app.log.interface import Committed as CommittedOffset
from tests.simulation.dead_letters import DEAD, dead_letter_of
from tests.simulation.history import (
    CommitRead,
    Committed,
    Complained,
    Discarded,
    History,
    Lost,
    Owned,
    Stored,
)
from tests.simulation.virtual_loop import PROCESS, VirtualLoop

# Events that the product logs only if it has a defect.
_COMPLAINTS: Final = frozenset({"internal_error", "append_broke"})


class Witness:
    """An observer of the log that writes the history."""

    def __init__(self, loop: VirtualLoop, history: History) -> None:
        self._loop = loop
        self._history = history
        # The highest offset that was ever committed, by incarnation and partition.
        self.furthest: dict[tuple[str, Partition], int] = {}

    def stored(self, partition: Partition, first: int, records: Sequence[NewRecord]) -> None:
        if partition.topic == UNDELIVERED:
            self._discarded(records)
        if partition.topic == DEAD.name:
            for record in records:
                self._history.add(dead_letter_of(record, self._loop.time()))
        if partition.topic in (*OWN, DEAD.name):
            return
        for offset, record in enumerate(records, start=first):
            message = dict(record.headers).get(HEADER_ID, b"?").decode()
            self._history.add(
                Stored(
                    at=self._loop.time(),
                    topic=partition.topic,
                    partition=partition.index,
                    offset=offset,
                    message=message,
                    size=len(record.value),
                )
            )

    def lost(self, partition: Partition, start: int, end: int, *, why: str) -> None:
        self._history.add(
            Lost(
                at=self._loop.time(),
                topic=partition.topic,
                partition=partition.index,
                start=start,
                end=end,
                why=why,
            )
        )

    def committed(
        self, process: str, group: str, *, partition: Partition, what: CommittedOffset
    ) -> None:
        incarnation = _incarnation(what)
        if (found := parse_progress(incarnation, what.offset, what.metadata)) is not None:
            place = incarnation, partition
            self.furthest[place] = max(self.furthest.get(place, 0), what.offset)
            self._history.add(
                Committed(
                    at=self._loop.time(),
                    process=process,
                    group=group,
                    incarnation=incarnation,
                    partition=partition.index,
                    offset=what.offset,
                    done=tuple(found.finished),
                    delivered=found.delivered,
                    discarded=found.discarded,
                    filtered=found.filtered,
                )
            )

    def commit_read(
        self, process: str, group: str, *, partition: Partition, what: CommittedOffset
    ) -> None:
        incarnation = _incarnation(what)
        if (found := parse_progress(incarnation, what.offset, what.metadata)) is not None:
            self._history.add(
                CommitRead(
                    at=self._loop.time(),
                    process=process,
                    group=group,
                    incarnation=incarnation,
                    partition=partition.index,
                    offset=what.offset,
                    done=tuple(found.finished),
                )
            )

    def owned(self, process: str, partitions: Collection[Partition], *, gained: bool) -> None:
        for partition in sorted(partitions):
            self._history.add(
                Owned(
                    at=self._loop.time(),
                    process=process,
                    topic=partition.topic,
                    partition=partition.index,
                    gained=gained,
                )
            )

    def complain(self, what: str) -> None:
        """Record an error of the running process."""
        process = PROCESS.get(self._loop.outside).name
        self._history.add(Complained(at=self._loop.time(), process=process, what=what))

    def logged(self, _logger: object, method: str, entry: MutableMapping[str, Any]) -> str:
        """Record a log entry about an error, and drop every entry: a processor of structlog."""
        if method in {"exception", "critical"} or entry.get("event") in _COMPLAINTS:
            self.complain(repr(sorted((name, str(each)) for name, each in entry.items())))
        raise structlog.DropEvent

    def _discarded(self, records: Sequence[NewRecord]) -> None:
        for new in records:
            entry = entry_of(Record(0, 0, None, new.value, list(new.headers)))
            if isinstance(entry, Undelivered):
                self._history.add(
                    Discarded(
                        at=self._loop.time(),
                        incarnation=entry.subscription_id,
                        topic=entry.topic,
                        partition=entry.partition,
                        offset=entry.offset,
                        message=entry.message_id,
                        reason=entry.reason,
                        epoch=entry.producer_epoch,
                    )
                )


def _incarnation(what: CommittedOffset) -> str:
    """Return the id of the subscription in the metadata of a commit."""
    words = what.metadata.split(" ")
    return words[1] if len(words) > 1 else ""

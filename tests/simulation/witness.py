"""Records in the history what happens in the log, and unexpected errors of the product."""

from collections.abc import Collection, MutableMapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

import structlog

from app.domain.commit import parse_progress
from app.domain.discards.retractions import entry_of
from app.domain.discards.undelivered import Undelivered
from app.domain.message import HEADER_ID, HEADER_TARGET, NewRecord, Partition, Record
from app.domain.replay.retransmission import HEADER_SOURCE
from app.domain.streams import OWN, UNDELIVERED
from app.domain.targeted import target_of
from app.log.interface import Committed as CommittedOffset
from tests.simulation.dead_letters import DEAD, dead_letter_of
from tests.simulation.history import (
    CommitRead,
    Committed,
    Complained,
    Copied,
    Discarded,
    History,
    Lost,
    Owned,
    Stored,
    copy_name,
)
from tests.simulation.virtual_loop import PROCESS, VirtualLoop

# Whether the running task sends a retransmission. Such a task reads commits, and delivers nothing.
FEEDS: Final[ContextVar[bool]] = ContextVar("feeds", default=False)
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
            if self._copied(partition, offset, record=record, message=message):
                continue
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

    def _copied(
        self, partition: Partition, offset: int, *, record: NewRecord, message: str
    ) -> bool:
        """Record a message that is sent again. Return whether it is one."""
        headers = dict(record.headers)
        target, source = target_of(headers.get(HEADER_TARGET, b"")), headers.get(HEADER_SOURCE)
        if target is None or source is None:
            return False
        index, _, original = source.decode().partition("/")
        self._history.add(
            Copied(
                at=self._loop.time(),
                topic=partition.topic,
                partition=partition.index,
                offset=offset,
                message=copy_name(message, target.job_id),
                incarnation=target.subscription_id,
                retransmission=int(target.job_id, 16),
                source=(int(index), int(original)),
            )
        )
        return True

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
        if FEEDS.get():
            return
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
                        message=copy_name(entry.message_id, entry.retransmission),
                        reason=entry.reason,
                        epoch=entry.producer_epoch,
                    )
                )


def _incarnation(what: CommittedOffset) -> str:
    """Return the id of the subscription in the metadata of a commit."""
    words = what.metadata.split(" ")
    return words[1] if len(words) > 1 else ""

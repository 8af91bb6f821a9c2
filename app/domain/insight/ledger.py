"""The ledger: proves what happened to every message for a subscription.

An entry is about the time between two snapshots of the subscription, the opening and the closing of
the entry. The opening is the closing of the previous entry. For each partition the entry states
this equation, as in bookkeeping:

    carried + published + resent = delivered + discarded + filtered + cancelled + unfinished +
        missing

Carried messages were unfinished at the opening. Resent messages were added by retransmissions. The
left side is counted in the log. The right side is counted in the subscription's commits, which
store the counts together with the offset. `missing` is the difference of both sides. Traces are not
needed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.commit import Progress, Ranges
from app.domain.replay.retransmission import OffsetSpan

# The shortest time between two entries of a ledger. It counts only for short retentions. Otherwise
# the next entry is due after half of the retention at the latest, so that the log still has the
# messages of an entry.
EVERY_MIN: Final = timedelta(minutes=10)
# The maximum number of reasons of discards in a ledger entry. Only the most frequent reasons are
# stored.
REASONS_MAX: Final = 50


class RecordAudience(StrEnum):
    """Which subscriptions a record of a topic is for, as seen from the ledger's subscription.

    EVERYBODY: for all subscriptions. RESENT: only for this subscription, from a retransmission.
    CANCELLED: only for this subscription, from a cancelled retransmission, so that the record may
    or may not have been delivered. OTHERS: only for another subscription.
    """

    EVERYBODY = "EVERYBODY"
    RESENT = "RESENT"
    CANCELLED = "CANCELLED"
    OTHERS = "OTHERS"


class Doubt(StrEnum):
    """The reasons why an entry proves less than it states.

    MOVED: a seek or a tool moved the subscription, so nobody knows which messages it skipped.
    BEGUN_ANEW: the subscription's counts, or the offsets of the log, started again from zero. GONE:
    the log no longer had some records, so nobody knows which subscriptions these records were for.
    Each of them counts as a message for all subscriptions. CANCELLED: some messages either are
    missing, or are from a cancelled retransmission. UNRECORDED: more messages were discarded than
    discards were recorded. COUNTED_TWICE: the subscription counted more messages than existed.
    NOT_COVERED: no entry is about some part of the requested time.
    """

    MOVED = "MOVED"
    BEGUN_ANEW = "BEGUN_ANEW"
    GONE = "GONE"
    CANCELLED = "CANCELLED"
    UNRECORDED = "UNRECORDED"
    COUNTED_TWICE = "COUNTED_TWICE"
    NOT_COVERED = "NOT_COVERED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The state of a subscription in a partition at a snapshot: its commit, and the end of the log.

    Attributes:
        partition: The index of the partition.
        offset: The committed offset.
        end: The next offset of the partition.
        finished: The ranges of finished offsets above `offset`.
        delivered: The number of messages of this partition that were ever delivered to the
            subscription.
        discarded: The number of messages that were ever discarded.
        filtered: The number of messages that were ever filtered out.
        seek: The number of the last seek before the commit; None if a tool wrote the commit.
    """

    partition: int
    offset: int
    end: int
    finished: tuple[tuple[int, int], ...] = ()
    delivered: int = 0
    discarded: int = 0
    filtered: int = 0
    seek: int | None = 0

    @property
    def accounted(self) -> int:
        """The number of messages that the subscription had finished since its creation."""
        return self.delivered + self.discarded + self.filtered


def mark_of(partition: int, progress: Progress, end: int) -> Mark:
    """Return the state of a subscription whose commit is `progress`, if the log ends at `end`."""
    return Mark(
        partition=partition,
        offset=progress.offset,
        end=max(end, progress.offset),
        finished=tuple((low, high) for low, high in progress.finished),
        delivered=progress.delivered,
        discarded=progress.discarded,
        filtered=progress.filtered,
        seek=progress.seek,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRequest:
    """The request for a ledger entry: what the entry is about.

    Attributes:
        number: The number of the entry.
        since: The time of the opening snapshot.
        until: The time of the closing snapshot.
        opening: The state of each partition at the opening.
        closing: The state of each partition at the closing.
        dropped: The ids of retransmissions that were cancelled before the closing.
        streams: The offsets of Angelia's own streams that the recorder must have stored before the
            entry is made.
    """

    number: int
    since: datetime
    until: datetime
    opening: tuple[Mark, ...]
    closing: tuple[Mark, ...]
    dropped: tuple[str, ...] = ()
    streams: tuple[OffsetSpan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """The state of one partition at the opening and at the closing snapshot of a ledger entry."""

    opening: Mark
    closing: Mark

    @property
    def start(self) -> int:
        """The first offset that the entry counts. The last one is just before `closing.end`."""
        return min(self.opening.offset, self.closing.end)

    def carried(self) -> Ranges:
        """The offsets that were published before the opening, and unfinished at the opening."""
        opening = self.opening
        return left_of(opening.offset, min(opening.end, self.closing.end), opening.finished)

    def published(self) -> Ranges:
        """The offsets that were published between the two snapshots, finished or not."""
        return left_of(self.opening.end, self.closing.end, self.opening.finished)

    def unfinished(self) -> Ranges:
        """The offsets that were unfinished at the closing."""
        closing = self.closing
        return left_of(closing.offset, closing.end, closing.finished)

    def doubts(self) -> frozenset[Doubt]:
        """The doubts that are known without reading the log."""
        opening, closing = self.opening, self.closing
        found = set()
        if closing.end < opening.end or closing.accounted < opening.accounted:
            found.add(Doubt.BEGUN_ANEW)
        if opening.seek is None or closing.seek != opening.seek or closing.offset < opening.offset:
            found.add(Doubt.MOVED)
        return frozenset(found)


def books_of(request: LedgerRequest) -> Sequence[Book]:
    """Return the states of all partitions that existed at the closing.

    A partition that did not exist at the opening counts as empty at the opening.
    """
    opened = {mark.partition: mark for mark in request.opening}
    return [
        Book(
            opening=opened.get(mark.partition) or Mark(partition=mark.partition, offset=0, end=0),
            closing=mark,
        )
        for mark in request.closing
    ]


def left_of(start: int, end: int, without: Ranges) -> Ranges:
    """Return the offsets of [start, end) that are in none of the ordered ranges `without`."""
    left = []
    for low, high in without:
        if start < min(low, end):
            left.append((start, min(low, end)))
        start = max(start, high)
    if start < end:
        left.append((start, end))
    return tuple(left)


def common(one: Ranges, other: Ranges) -> Ranges:
    """Return the offsets that are in `one` and in `other`. The ranges in each are in order."""
    found, left, right = [], 0, 0
    while left < len(one) and right < len(other):
        low = max(one[left][0], other[right][0])
        high = min(one[left][1], other[right][1])
        if low < high:
            found.append((low, high))
        if one[left][1] <= other[right][1]:
            left += 1
        else:
            right += 1
    return tuple(found)


def size_of(ranges: Ranges) -> int:
    """Return the number of offsets in the ranges."""
    return sum(high - low for low, high in ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Records of one partition with the same properties, as counted by Spark.

    Attributes:
        partition: The index of the partition.
        carried: Whether the records were published before the opening.
        passed: Whether the records were finished at the closing.
        audience: Which subscriptions the records are for.
        messages: The number of these records.
        first: The lowest offset of these records.
    """

    partition: int
    carried: bool
    passed: bool
    audience: RecordAudience
    messages: int
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDiscards:
    """The number of messages of a partition whose recorded discards have this reason and status."""

    partition: int
    reason: str
    status: int | None
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The counts of messages in a ledger entry. The docstring of this module explains them.

    Two counts are parts of other counts. `gone` are messages whose records the log no longer had.
    `recorded` are discards that have a record.
    """

    carried: int = 0
    published: int = 0
    resent: int = 0
    delivered: int = 0
    discarded: int = 0
    filtered: int = 0
    cancelled: int = 0
    unfinished: int = 0
    missing: int = 0
    gone: int = 0
    recorded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSums:
    """What happened to the messages of one partition, and the doubts about these counts."""

    partition: int
    sums: Sums
    doubts: frozenset[Doubt] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the job counted for a requested ledger entry: messages, and recorded discards."""

    counted: tuple[Counted, ...] = ()
    discards: tuple[RecordedDiscards, ...] = ()


def judged(request: LedgerRequest, finding: Finding) -> Sequence[PartitionSums]:
    """Return what happened to the messages of each partition."""
    counted = _by_partition(finding.counted)
    recorded: dict[int, int] = {}
    for each in finding.discards:
        recorded[each.partition] = recorded.get(each.partition, 0) + each.messages
    return [
        _judged(
            book,
            counted.get(book.closing.partition, ()),
            recorded=recorded.get(book.closing.partition, 0),
        )
        for book in books_of(request)
    ]


def _judged(book: Book, counted: Sequence[Counted], *, recorded: int) -> PartitionSums:
    gone = _gone(book, min((each.first for each in counted), default=book.closing.end))
    rows = [*counted, *gone]
    ours = [each for each in rows if each.audience is not RecordAudience.OTHERS]
    opening, closing = book.opening, book.closing
    passed = _messages(each for each in ours if each.passed)
    # Compute how many messages are cancelled or missing. If this number is negative, the entry has
    # a doubt that explains it.
    between = passed - (closing.accounted - opening.accounted)
    dropped = _messages(
        each for each in ours if each.passed and each.audience is RecordAudience.CANCELLED
    )
    cancelled = min(max(between, 0), dropped)
    sums = Sums(
        carried=_messages(each for each in ours if each.carried),
        published=_messages(
            e for e in ours if not e.carried and e.audience is RecordAudience.EVERYBODY
        ),
        resent=_messages(
            e for e in ours if not e.carried and e.audience is not RecordAudience.EVERYBODY
        ),
        delivered=closing.delivered - opening.delivered,
        discarded=closing.discarded - opening.discarded,
        filtered=closing.filtered - opening.filtered,
        cancelled=cancelled,
        unfinished=_messages(each for each in ours if not each.passed),
        missing=between - cancelled,
        gone=_messages(gone),
        recorded=recorded,
    )
    return PartitionSums(partition=closing.partition, sums=sums, doubts=_doubts(book, sums))


def _doubts(book: Book, sums: Sums) -> frozenset[Doubt]:
    return book.doubts() | {
        doubt
        for doubt, holds in (
            (Doubt.GONE, sums.gone > 0),
            (Doubt.CANCELLED, sums.cancelled > 0),
            (Doubt.UNRECORDED, sums.discarded > sums.recorded),
            (Doubt.COUNTED_TWICE, sums.missing < 0),
        )
        if holds
    }


def _gone(book: Book, first: int) -> list[Counted]:
    """Return the messages of the entry before the offset `first`, where the log now begins.

    Nobody knows which subscriptions these messages were for, so they count as messages for all.
    """
    unfinished = book.unfinished()
    before = [(0, first)]
    return [
        Counted(
            partition=book.closing.partition,
            carried=carried,
            passed=passed,
            audience=RecordAudience.EVERYBODY,
            messages=messages,
            first=0,
        )
        for carried, ranges in ((True, book.carried()), (False, book.published()))
        for all_gone in [common(ranges, before)]
        for open_ones in [size_of(common(all_gone, unfinished))]
        for passed, messages in ((False, open_ones), (True, size_of(all_gone) - open_ones))
        if messages
    ]


def _messages(counted: Iterable[Counted]) -> int:
    return sum(each.messages for each in counted)


def _by_partition(counted: Iterable[Counted]) -> Mapping[int, list[Counted]]:
    found: dict[int, list[Counted]] = {}
    for each in counted:
        found.setdefault(each.partition, []).append(each)
    return found


def added(sums: Iterable[Sums]) -> Sums:
    """Add up sums, such as those of all partitions of an entry."""
    names = [each.name for each in fields(Sums)]
    totals = dict.fromkeys(names, 0)
    for each in sums:
        for name in names:
            totals[name] += getattr(each, name)
    return Sums(**totals)


def following(sums: Sequence[Sums]) -> Sums:
    """Return the sums of consecutive entries, added up to the sums of one longer entry.

    The carried messages are those of the first entry. The unfinished messages are those of the last
    entry.
    """
    if not sums:
        return Sums()
    both = added(sums)
    kept = {each.name: getattr(both, each.name) for each in fields(Sums)}
    return Sums(**kept | {"carried": sums[0].carried, "unfinished": sums[-1].unfinished})


def reasons_of(discards: Iterable[RecordedDiscards]) -> Sequence[tuple[str, int | None, int]]:
    """Return reason, status, and number of messages in all partitions, the most frequent first."""
    found: dict[tuple[str, int | None], int] = {}
    for each in discards:
        key = (each.reason, each.status)
        found[key] = found.get(key, 0) + each.messages
    order = sorted(found.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or 0))
    return [(reason, status, messages) for (reason, status), messages in order[:REASONS_MAX]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """A stored entry of a ledger.

    Attributes:
        number: The number of the entry.
        since: The time of the opening snapshot.
        until: The time of the closing snapshot.
        partitions: What happened to the messages of each partition.
        hash: The hash of the entry's text and of `previous`.
        previous: The hash of the previous entry.
        key_id: The id of the key that signed the entry; None if it is not signed.
        reasons: For each reason and status, the number of recorded discards.
        among: The ranges in which messages are missing (`app.domain.insight.ledger_missing`). Each
            has a partition, its first offset, and the offset after its last one.
        closing: The state of each partition at the closing.
    """

    number: int
    since: datetime
    until: datetime
    partitions: tuple[PartitionSums, ...]
    hash: str
    previous: str
    key_id: str | None = None
    reasons: tuple[tuple[str, int | None, int], ...] = ()
    among: tuple[tuple[int, int, int], ...] = ()
    closing: tuple[Mark, ...] = field(default=(), repr=False)

    @property
    def sums(self) -> Sums:
        """The sums over all partitions."""
        return added(each.sums for each in self.partitions)

    @property
    def doubts(self) -> Sequence[Doubt]:
        """The doubts of all partitions, each once, in the order of `Doubt`."""
        found = {doubt for each in self.partitions for doubt in each.doubts}
        return [doubt for doubt in Doubt if doubt in found]


def next_due(last: datetime, retention: timedelta) -> datetime:
    """Return when the next entry is due, if the last one was made at `last`.

    An entry is due at the end of the day, or earlier if the log would drop messages before that.
    """
    tomorrow = last.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return min(tomorrow, last + max(retention / 2, EVERY_MIN))


def spans_of(topic: str, request: LedgerRequest) -> Iterator[OffsetSpan]:
    """Yield, for each partition of the topic, the offsets that are counted for an entry."""
    for book in books_of(request):
        start, end = book.start, book.closing.end
        yield OffsetSpan(topic=topic, partition=book.closing.partition, start=start, end=end)

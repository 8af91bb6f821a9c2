"""Rules for ledgers (docs/spark.md): what an entry is computed from says what became of messages.

Spark counts records, and reads discards. Here both come from the history. What is computed from
them is the product's own code.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Final, NamedTuple

from app.domain.insight.ledger import (
    Book,
    Counted,
    Finding,
    LedgerRequest,
    Mark,
    PartitionSums,
    RecordAudience,
    RecordedDiscards,
    books_of,
    judged,
)
from tests.simulation.history import Committed, Copied, Stored
from tests.simulation.story import Life, Position, Story
from tests.simulation.violation import Violation
from tests.simulation.world import keeps

# Each subscription gets this number of entries, one after the other.
ENTRIES: Final = 4
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Ledger(NamedTuple):
    """What is needed for the entries of one subscription."""

    life: Life
    # What was stored in its topic, in the order of time.
    stored: Sequence[Stored | Copied]
    committed: Sequence[Committed]
    cancelled: frozenset[int]


def ledgers_add_up(story: Story) -> Iterator[Violation]:
    """In each entry of a ledger, counts add up to what became of the messages."""
    moved = story.troubled(-inf, inf, frozenset({"commits late"}))
    for life in story.lives.values():
        topic = life.created.topic
        lost = any(each.topic == topic for each in story.lost)
        if life.counted is None or life.is_deleted or life.seeks or lost or moved:
            continue
        ledger = _Ledger(
            life,
            [*_stored(story, topic)],
            [each for each in story.committed if each.incarnation == life.id],
            frozenset(story.cancelled),
        )
        begun, ended = life.created.at, life.counted.at
        times = [begun + (ended - begun) * part / ENTRIES for part in range(1, ENTRIES + 1)]
        opening = _beginning(life)
        for at in times:
            closing = _marks(ledger, at=at)
            yield from _entry(ledger, opening=opening, closing=closing, at=at)
            opening = closing


def _stored(story: Story, topic: str) -> Iterator[Stored | Copied]:
    for each in story.history.events:
        if isinstance(each, (Stored, Copied)) and each.topic == topic:
            yield each


def _beginning(life: Life) -> tuple[Mark, ...]:
    return tuple(
        Mark(partition=partition, offset=offset, end=offset)
        for partition, offset in enumerate(life.created.start)
    )


def _marks(ledger: _Ledger, *, at: float) -> tuple[Mark, ...]:
    """Return the state of each partition at a time: the last commit, and the end of the log."""
    ends = {each.partition: each.end for each in _beginning(ledger.life)}
    for each in ledger.stored:
        if each.at <= at:
            ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
    last = {each.partition: each for each in ledger.committed if each.at <= at}
    return tuple(
        Mark(
            partition=partition,
            offset=commit.offset,
            end=max(end, commit.offset),
            finished=commit.done,
            delivered=commit.delivered,
            discarded=commit.discarded,
            filtered=commit.filtered,
        )
        if (commit := last.get(partition)) is not None
        else _unopened(ledger.life, partition, end)
        for partition, end in sorted(ends.items())
    )


def _unopened(life: Life, partition: int, end: int) -> Mark:
    starts = life.created.start
    start = starts[partition] if partition < len(starts) else 0
    return Mark(partition=partition, offset=start, end=max(start, end))


def _entry(
    ledger: _Ledger, *, opening: tuple[Mark, ...], closing: tuple[Mark, ...], at: float
) -> Iterator[Violation]:
    request = LedgerRequest(
        number=1, since=_NO_TIME, until=_NO_TIME, opening=opening, closing=closing
    )
    counted, discards = list[Counted](), list[RecordedDiscards]()
    expected: dict[int, list[int]] = {}
    for book in books_of(request):
        ours = [*_found(ledger, book)]
        counted += [count for count, _, _ in ours]
        finished = [(message, listed) for count, message, listed in ours if _is_passed(count)]
        partition = book.closing.partition
        recorded = sum(listed for _, listed in finished)
        discards.append(
            RecordedDiscards(partition=partition, reason="", status=None, messages=recorded)
        )
        unwanted = [message for message, _ in finished if not _wants(ledger.life, message)]
        delivered = len(finished) - recorded - len(unwanted)
        expected[partition] = [delivered, recorded, len(unwanted)]
    for part in judged(request, Finding(counted=tuple(counted), discards=tuple(discards))):
        yield from _agrees(ledger, part, expected=expected[part.partition], at=at)


def _is_passed(count: Counted) -> bool:
    return count.passed and count.audience is not RecordAudience.OTHERS


def _wants(life: Life, message: str) -> bool:
    return not life.plan.filtered or keeps(message)


def _found(ledger: _Ledger, book: Book) -> Iterator[tuple[Counted, str, bool]]:
    """Yield each record of an entry, with its message, and whether its discard is listed."""
    life = ledger.life
    assert life.counted is not None
    listed = set(life.counted.listed)
    carried, published, open_ones = (
        {offset for low, high in ranges for offset in range(low, high)}
        for ranges in (book.carried(), book.published(), book.unfinished())
    )
    for each in ledger.stored:
        if each.partition == book.closing.partition and each.offset in carried | published:
            count = Counted(
                partition=each.partition,
                carried=each.offset in carried,
                passed=each.offset not in open_ones,
                audience=_audience(ledger, each),
                messages=1,
                first=each.offset,
            )
            yield count, each.message, Position(each.partition, each.offset) in listed


def _audience(ledger: _Ledger, stored: Stored | Copied) -> RecordAudience:
    if isinstance(stored, Stored):
        return RecordAudience.EVERYBODY
    if stored.incarnation != ledger.life.id:
        return RecordAudience.OTHERS
    cancelled = stored.retransmission in ledger.cancelled
    return RecordAudience.CANCELLED if cancelled else RecordAudience.RESENT


def _agrees(
    ledger: _Ledger, part: PartitionSums, *, expected: Sequence[int], at: float
) -> Iterator[Violation]:
    sums, life = part.sums, ledger.life
    told = [sums.delivered + sums.cancelled, sums.discarded, sums.filtered]
    if sums.missing or part.doubts - {"CANCELLED"}:
        text = f"{life.id} has an entry with {sums.missing} missing in {part.partition}"
        yield Violation("ledger", at, f"{text}, and {sorted(part.doubts)}")
    elif told != expected:
        text = f"{life.id} counts {told} in {part.partition}; of its history: {expected}"
        yield Violation("ledger", at, text)


LEDGER_RULES: Final = (ledgers_add_up,)

"""Seeks: moves of a subscription to another position in its topic, backwards or forwards."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from app.domain.commit import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Seek:
    """The last move of a subscription to another position.

    Each commit contains the number of the last move that was known to the worker. If a worker finds
    a commit with an older number, it starts at the offsets of the last move, and not at the commit.
    So a move is the change of one row in the database: it cannot be lost, and it cannot happen
    twice. A commit without a number is from another tool. The worker starts at such a commit,
    unless it was there before the move.

    Attributes:
        number: The number of the move: when it was made, in milliseconds since 1970, but always
            higher than that of the move before. So no move gets the number of one that the database
            has lost. Commits in the log may still have that number.
        offsets: The offset at which each partition continues. The index is the partition.
        replaced: The offset that each partition had committed before the move. The index is the
            partition.
    """

    number: int
    offsets: tuple[int, ...]
    replaced: tuple[int | None, ...] = ()

    @classmethod
    def after(
        cls,
        last: Self | None,
        offsets: Mapping[int, int],
        replaced: Mapping[int, int],
        *,
        now_ms: int,
    ) -> "Seek":
        """Return the next move after `last`. It moves each partition to its offset in `offsets`.

        `replaced` has the offsets that were committed before the move.
        """
        partitions = sorted(offsets)
        return cls(
            number=now_ms if last is None else max(now_ms, last.number + 1),
            offsets=tuple(offsets[index] for index in partitions),
            replaced=tuple(replaced.get(index) for index in partitions),
        )

    def offset_in(self, partition: int) -> int | None:
        """Return the offset to which the move sets `partition`.

        The result is None if the partition was added after the move.
        """
        return self.offsets[partition] if partition < len(self.offsets) else None


def sought(progress: Progress, seek: Seek | None, *, partition: int) -> Progress:
    """Return the position at which a worker starts in a partition. `progress` is the last commit.

    If the commit is older than the move `seek`, the worker starts at the offset of the move, and
    the counts of the commit are kept. Otherwise the worker starts at the commit.
    """
    if seek is None:
        return progress
    offset = seek.offset_in(partition)
    if offset is None or not _is_older(progress, seek, partition):
        return progress if progress.seek else replace(progress, seek=seek.number)
    return Progress(
        subscription_id=progress.subscription_id,
        offset=offset,
        delivered=progress.delivered,
        discarded=progress.discarded,
        filtered=progress.filtered,
        volume=progress.volume,
        seek=seek.number,
    )


def _is_older(progress: Progress, seek: Seek, partition: int) -> bool:
    if progress.seek is not None:
        return progress.seek < seek.number
    return partition < len(seek.replaced) and seek.replaced[partition] == progress.offset

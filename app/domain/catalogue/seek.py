"""Seeks: moves of a subscription to another position in its topic, backwards or forwards."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from app.domain.commit import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Seek:
    """The last move of a subscription to another position.

    Each commit contains the number of the last move that its worker knew. If a worker finds a
    commit with an older number, it continues at the offsets of the move instead. So a move is one
    change of one row: a move cannot be lost, and cannot happen twice. A commit without a number is
    from an external tool. Such a commit counts, unless it existed before the move.

    Attributes:
        number: The number of the move.
        offsets: The offset at which each partition continues, by the partition's index.
        replaced: The offsets that were committed before the move, by the partition's index.
    """

    number: int
    offsets: tuple[int, ...]
    replaced: tuple[int | None, ...] = ()

    @classmethod
    def after(
        cls, last: Self | None, offsets: Mapping[int, int], replaced: Mapping[int, int]
    ) -> "Seek":
        """Return the move that follows `last`, to the given offsets of all partitions."""
        partitions = sorted(offsets)
        return cls(
            number=1 if last is None else last.number + 1,
            offsets=tuple(offsets[index] for index in partitions),
            replaced=tuple(replaced.get(index) for index in partitions),
        )

    def offset_in(self, partition: int) -> int | None:
        """Return the move's offset in that partition; None for a partition that was added later."""
        return self.offsets[partition] if partition < len(self.offsets) else None


def sought(progress: Progress, seek: Seek | None, *, partition: int) -> Progress:
    """Return where to start in a partition whose last commit is `progress`.

    This is the position of the move `seek`, with the counts of the commit, if the commit is older
    than the move. Otherwise it is the commit.
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

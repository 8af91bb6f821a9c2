"""Moving a subscription to another place in its topic, backwards or ahead."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from app.domain.commit import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Seek:
    """Where a subscription was moved to last: an offset for each partition, by its index.

    Commits say which move they know of, by its `number`; whoever finds an older one goes to these
    offsets instead. So a move is one change of one row, whatever else is running, and none of it
    can be lost or made twice. A commit that says nothing is a foreign tool's, and counts, unless
    it is one of those `replaced`, which were there before the move.
    """

    number: int
    offsets: tuple[int, ...]
    replaced: tuple[int | None, ...] = ()

    @classmethod
    def after(
        cls, last: Self | None, offsets: Mapping[int, int], replaced: Mapping[int, int]
    ) -> "Seek":
        """The move that follows `last` to the offsets of all partitions."""
        partitions = sorted(offsets)
        return cls(
            number=1 if last is None else last.number + 1,
            offsets=tuple(offsets[index] for index in partitions),
            replaced=tuple(replaced.get(index) for index in partitions),
        )

    def offset_in(self, partition: int) -> int | None:
        """Where it goes on in that partition; None in one that was added later."""
        return self.offsets[partition] if partition < len(self.offsets) else None


def sought(progress: Progress, seek: Seek | None, *, partition: int) -> Progress:
    """Where to start in a partition whose last commit is `progress`; its counts stay."""
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

"""Computes how many of the attempts that workers report are new (pure).

Each worker reports totals of its attempts for a subscription (`AttemptTotals`). The recorder of the
history remembers the last totals of each worker, and counts only the difference. So the result is
right even if a report is written or read several times.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from app.domain.metrics.samples import NO_ATTEMPTS
from app.domain.varints import put_varint, read_varints

_KEY_BYTES: Final = 8


class AttemptTotals(NamedTuple):
    """The attempts that a worker has counted since `since_ms` (milliseconds since the epoch).

    `numbers` has first a number for each name in `samples.ATTEMPTS`, and then a number for each
    range of durations.
    If `since_ms` changes, the worker has started to count from zero again.
    """

    since_ms: int
    numbers: tuple[int, ...]


class Gained(NamedTuple):
    """The new attempts, in the same order as in `AttemptTotals`.

    Pass `known` to the next call of `gained`.
    """

    numbers: tuple[int, ...]
    known: bytes


def gained(known: bytes, reported: Mapping[str, AttemptTotals]) -> Gained:
    """Return the new attempts in the workers' reports of a subscription.

    `known` is from the result of the last call. The new `known` does not have workers without a
    report. This is safe, because a worker counts from zero again long before its last report is
    deleted.
    """
    before = _totals_of(known)
    numbers = NO_ATTEMPTS
    after = bytearray()
    for worker, totals in sorted(reported.items()):
        key = _key(worker)
        last = before.get(key)
        recorded = last.numbers if last and last.since_ms == totals.since_ms else NO_ATTEMPTS
        numbers = tuple(
            so_far + max(0, current - then)
            for so_far, current, then in zip(numbers, totals.numbers, recorded, strict=True)
        )
        for number in (key, totals.since_ms, *totals.numbers):
            put_varint(after, number)
    return Gained(numbers, bytes(after))


def _totals_of(known: bytes) -> Mapping[int, AttemptTotals]:
    stored, width = list(read_varints(known)), 2 + len(NO_ATTEMPTS)
    rows = (stored[start : start + width] for start in range(0, len(stored), width))
    return {key: AttemptTotals(since_ms, tuple(rest)) for key, since_ms, *rest in rows}


def _key(worker: str) -> int:
    digest = blake2b(worker.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()
    return int.from_bytes(digest)

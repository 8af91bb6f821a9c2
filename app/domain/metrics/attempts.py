"""The attempts that workers report, and how many of them are new (pure).

A worker reports the numbers of its attempts for a subscription since it began to report them
(`AttemptTotals`). Who records their history remembers the last numbers of each worker. So it does
not matter how often a report is written or read.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from app.domain.metrics.samples import NO_ATTEMPTS
from app.domain.varints import put_varint, read_varints

_KEY_BYTES: Final = 8


class AttemptTotals(NamedTuple):
    """What a worker counted since `since_ms`, in the order of NO_ATTEMPTS.

    Another `since_ms` says that the worker counts from zero again.
    """

    since_ms: int
    numbers: tuple[int, ...]


class Gained(NamedTuple):
    """The attempts that were not recorded before, and what is to be remembered from now on."""

    numbers: tuple[int, ...]
    known: bytes


def gained(known: bytes, reported: Mapping[str, AttemptTotals]) -> Gained:
    """Return what is new in the reports of a subscription, by worker, since `known` was returned.

    Workers without a report are forgotten: a report is kept much longer than a worker waits until
    it counts from zero again.
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

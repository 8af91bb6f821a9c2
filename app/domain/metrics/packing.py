"""Converts samples to bytes: packed while samples are added, and then sealed (pure).

A packed sample is a sequence of varints (LEB128): the index of the sample, a mask that says which
numbers are not zero, and these numbers. The index is the number of steps since the start of the
row. Several samples may have the same index, because a clock may go back. They are then merged.

A sealed row is compressed by columns, because the values of a column are similar. It takes half the
space of packed samples. Nothing can be added to it.
"""

import zlib
from collections.abc import Sequence
from typing import Final

from app.domain.metrics.samples import COUNTS, DURATIONS, MetricsSample, merged
from app.domain.varints import put_varint, read_varints

# The allowed rate is stored as a number of hundredths, plus one, because zero means that the rate
# is unknown.
_HUNDREDTHS: Final = 100
_NUMBERS: Final = len(COUNTS) + DURATIONS + 2
_DURATIONS_AT: Final = slice(len(COUNTS), len(COUNTS) + DURATIONS)

Indexed = tuple[int, MetricsSample]


def packed(index: int, sample: MetricsSample) -> bytes:
    """Pack one sample. The result can be appended to other packed samples."""
    numbers = _numbers(sample)
    out = bytearray()
    put_varint(out, index)
    put_varint(out, sum(1 << at for at, number in enumerate(numbers) if number))
    for number in numbers:
        if number:
            put_varint(out, number)
    return bytes(out)


def unpacked(body: bytes) -> list[Indexed]:
    """Return the samples in packed bytes, ordered by index. Samples of one index are merged."""
    found: dict[int, list[MetricsSample]] = {}
    varints = read_varints(body)
    for index in varints:
        mask = next(varints)
        numbers = [next(varints) if mask >> at & 1 else 0 for at in range(_NUMBERS)]
        found.setdefault(index, []).append(_sample(numbers))
    return [(index, merged(found[index])) for index in sorted(found)]


def sealed(samples: Sequence[Indexed]) -> bytes:
    """Seal the samples of a complete row."""
    out = bytearray()
    put_varint(out, len(samples))
    for index, _ in samples:
        put_varint(out, index)
    for column in zip(*(_numbers(sample) for _, sample in samples), strict=True):
        if not any(column):
            out.append(0)
            continue
        out.append(1)
        for number in column:
            put_varint(out, number)
    return zlib.compress(bytes(out), 9)


def unsealed(body: bytes) -> list[Indexed]:
    """Return the samples in sealed bytes."""
    varints = read_varints(zlib.decompress(body))
    count = next(varints)
    indexes = [next(varints) for _ in range(count)]
    columns = [
        [next(varints) for _ in range(count)] if next(varints) else [0] * count
        for _ in range(_NUMBERS)
    ]
    rows = zip(*columns, strict=True)
    return [(index, _sample(row)) for index, row in zip(indexes, rows, strict=True)]


def _numbers(sample: MetricsSample) -> tuple[int, ...]:
    allowed = 0 if sample.allowed is None else round(sample.allowed * _HUNDREDTHS) + 1
    return (*sample.counts, *sample.durations, sample.lag, allowed)


def _sample(numbers: Sequence[int]) -> MetricsSample:
    *_, lag, allowed = numbers
    return MetricsSample(
        tuple(numbers[: len(COUNTS)]),
        tuple(numbers[_DURATIONS_AT]),
        lag,
        (allowed - 1) / _HUNDREDTHS if allowed else None,
    )

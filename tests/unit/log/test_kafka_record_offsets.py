"""The offsets of a batch's records, also if a producer numbered the records wrongly.

A broker stores a batch that is not compressed as it is, and gives it as many offsets as it has
records. So a wrong number must not lead beyond the batch.
"""

from collections.abc import Sequence

import pytest
from crc32c import crc32c

from app.log.kafka.protocol.compression import Compression
from app.log.kafka.protocol.decoder import decode
from app.log.kafka.protocol.encoding import BatchBody, varint, whole_batch

BASE = 3
FAR = 1_000


def a_record(delta: int, value: bytes) -> bytes:
    numbers = b"\0" + varint(0) + varint(delta)
    content = numbers + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(content)) + content


def a_batch(deltas: Sequence[int], *, last_delta: int, base: int = BASE) -> bytes:
    """A batch with these deltas, as a broker stores it. The values are `0`, `1`, ..."""
    raw = b"".join(a_record(delta, b"%d" % n) for n, delta in enumerate(deltas))
    batch = bytearray(whole_batch(BatchBody(len(deltas), 0, 0, raw), Compression.NONE))
    batch[0:8] = base.to_bytes(8, "big")
    batch[23:27] = last_delta.to_bytes(4, "big")
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def read(raw: bytes, offset: int) -> tuple[list[tuple[int, bytes | None]], int]:
    found = decode(raw, offset)
    return [(each.offset, each.value) for each in found.records], found.next_offset


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param([0, 1, 2], id="as it should be"),
        pytest.param([0, 1, FAR], id="beyond the last offset"),
        pytest.param([0, 1, 3], id="just beyond"),
        pytest.param([FAR, FAR + 1, FAR + 2], id="all beyond"),
        pytest.param([-FAR, 0, 1], id="negative"),
        pytest.param([-1, 0, 1], id="just below"),
        pytest.param([0, 0, 0], id="the same"),
        pytest.param([0, 2, 1], id="not in order"),
        pytest.param([0, -(2**62), 2], id="far below"),
    ],
)
def test_records_that_are_numbered_wrongly_have_the_offsets_of_their_batch(
    deltas: Sequence[int],
) -> None:
    batch = a_batch(deltas, last_delta=2)
    right = [(3, b"0"), (4, b"1"), (5, b"2")]
    assert read(batch, 0) == (right, 6)
    # A reader that continues inside the batch gets the other records, each at the same offset.
    for passed in range(4):
        assert read(batch, BASE + passed) == (right[passed:], 6)
    behind = a_batch([0, 1], last_delta=1, base=6)
    assert read(batch + behind, 4) == ([*right[1:], (6, b"0"), (7, b"1")], 8)


def test_holes_in_a_compacted_batch_stay() -> None:
    batch = a_batch([1, 4, 8], last_delta=9)
    assert read(batch, 0) == ([(4, b"0"), (7, b"1"), (11, b"2")], 13)
    assert read(batch, 5) == ([(7, b"1"), (11, b"2")], 13)
    assert read(batch, 12) == ([], 13)


def test_no_record_is_beyond_its_batch_though_there_are_more_records_than_offsets() -> None:
    assert read(a_batch([0, FAR, FAR], last_delta=1), 0) == ([(3, b"0"), (4, b"1"), (4, b"2")], 5)

"""Record batches that no producer makes: each is corrupt, and none takes long to find out."""

import pytest

from app.log.kafka.protocol.compression import Compression
from app.log.kafka.protocol.decoder import CorruptBatchError, decode
from app.log.kafka.protocol.encoding import BatchBody, varint, whole_batch

# With each loop of a hundred thousand, a batch that leads nowhere is read to its last record.
MANY = 100_000
NO_KEY_NO_VALUE = varint(-1) * 2


def a_batch(raw: bytes, records: int = MANY) -> bytes:
    """A batch with a good checksum that says to have so many records."""
    return whole_batch(BatchBody(records, 0, 0, raw), Compression.NONE)


def a_record(rest: bytes, *, delta: int = 9) -> bytes:
    """The record at 9 beyond the first, with what follows its numbers."""
    content = b"\0" + varint(0) + varint(delta) + rest
    return varint(len(content)) + content


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(varint(-4) + b"\0" + varint(0) * 2, id="a record that leads back"),
        pytest.param(varint(0) * 4, id="a record of no bytes"),
        pytest.param(a_record(varint(-3) + bytes(8)), id="a key of less than no bytes"),
        pytest.param(a_record(varint(-1) + varint(-3) + bytes(8)), id="such a value"),
        pytest.param(
            a_record(NO_KEY_NO_VALUE + varint(MANY) + varint(-80) + bytes(80)),
            id="a header that leads back",
        ),
        pytest.param(a_record(b"\xff" * 40 + b"\1"), id="a number of 41 bytes"),
    ],
)
@pytest.mark.parametrize("offset", [0, 40])
def test_a_batch_that_leads_nowhere_is_corrupt(raw: bytes, offset: int) -> None:
    with pytest.raises(CorruptBatchError, match="ends inside a record"):
        decode(a_batch(raw, MANY), offset)


def test_a_batch_of_such_records_as_there_are_is_read() -> None:
    raw = a_record(NO_KEY_NO_VALUE + varint(1) + varint(1) + b"h" + varint(-1), delta=0)
    (record,) = decode(a_batch(raw, 1), 0).records
    assert (record.offset, record.key, record.value) == (0, None, None)
    assert record.headers == [(b"h", b"")]


@pytest.mark.parametrize("length", [None, 0, -1])
def test_the_batches_before_a_corrupt_one_are_read(length: int | None) -> None:
    one = a_batch(a_record(NO_KEY_NO_VALUE + varint(0), delta=0), 1)
    size = one[8:12] if length is None else length.to_bytes(4, "big", signed=True)
    # Its last byte is another one, so its checksum is wrong.
    both = one + (1).to_bytes(8, "big") + size + one[12:-1] + b"\x02"
    decoded = decode(both, 0)
    assert ([each.offset for each in decoded.records], decoded.next_offset) == ([0], 1)
    with pytest.raises(CorruptBatchError):
        decode(both, 1)

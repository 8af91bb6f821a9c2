"""Record batches: what we write, any client reads; what any client writes, we read."""

import asyncio
import tracemalloc
from collections.abc import Sequence

import pytest
from crc32c import crc32c
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from app.domain.message import NewRecord, Partition
from app.log.kafka.fetch_requests import chunk_of
from app.log.kafka.protocol.compression import Compression
from app.log.kafka.protocol.decoder import (
    Contents,
    CorruptBatchError,
    contents,
    decode,
    is_one_plain,
)
from app.log.kafka.protocol.encoding import (
    BATCH_OVERHEAD,
    batch_body,
    encode_record,
    partition_of,
    whole_batch,
)
from app.log.kafka.protocol.fetches import AbortedTransaction, FetchedPart

PARTITION = Partition("t", 0)
NOW_MS = 1_700_000_000_000
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def foreign_batch(*, codec: int = 0, base: int = 0, count: int = 3, size: int = 100) -> bytes:
    """A batch as kafka-python's producer writes it, with its first offset set as a broker does."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 24)
    for n in range(count):
        value = b"%d" % n + b"v" * size
        builder.append(timestamp=NOW_MS + n, key=b"k%d" % n, value=value, headers=[("h", b"x")])
    builder.close()
    return base.to_bytes(8, "big") + bytes(builder.buffer())[8:]


def control_batch(base: int, *, producer: int = 1) -> bytes:
    """A transaction's end: a batch with the control bit set, its checksum made right again."""
    return transactional_batch(base, count=1, producer=producer, attributes=0x30)


def transactional_batch(
    base: int, *, producer: int, count: int = 3, codec: int = 0, attributes: int = 0x10
) -> bytes:
    batch = bytearray(foreign_batch(base=base, count=count, codec=codec))
    batch[22] |= attributes
    batch[43:51] = producer.to_bytes(8, "big")
    return with_checksum(batch)


def with_checksum(batch: bytearray) -> bytes:
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def encoded(records: Sequence[NewRecord], compression: Compression = Compression.NONE) -> bytes:
    return whole_batch(batch_body([encode_record(each, NOW_MS) for each in records]), compression)


@pytest.mark.parametrize("compression", Compression)
def test_what_is_encoded_is_what_kafka_python_reads(compression: Compression) -> None:
    sent = [
        NewRecord(value=b"a", key=b"k", headers=((b"id", b"1"), (b"ts", b""))),
        NewRecord(value=b"", timestamp_ms=NOW_MS - 5_000),
        NewRecord(value=b"x" * 300_000, key=b""),
    ]
    (batch,) = MemoryRecords(encoded(sent, compression))
    assert batch.validate_crc()
    found = [(r.value, r.key, tuple(r.headers), r.timestamp) for r in batch]
    assert found == [
        (b"a", b"k", (("id", b"1"), ("ts", b"")), NOW_MS),
        (b"", None, (), NOW_MS - 5_000),
        (b"x" * 300_000, b"", (), NOW_MS),
    ]


def test_a_batch_is_never_larger_than_it_was_estimated_to_be() -> None:
    sent = [
        NewRecord(value=b"v" * n, key=b"k" * n, headers=((b"h" * n, b"w" * n),) * (n % 7))
        for n in range(0, 5_000, 97)
    ]
    estimated = BATCH_OVERHEAD + sum(encode_record(each, NOW_MS).size for each in sent)
    assert len(encoded(sent)) <= estimated


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_batches_of_every_codec_are_read(codec: int) -> None:
    found = decode(foreign_batch(codec=codec, base=40), 40)
    assert [(r.offset, r.timestamp_ms, r.key, r.headers) for r in found.records] == [
        (40 + n, NOW_MS + n, b"k%d" % n, [(b"h", b"x")]) for n in range(3)
    ]
    assert [r.value for r in found.records] == [b"%d" % n + b"v" * 100 for n in range(3)]
    assert found.next_offset == 43


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_a_batch_that_is_much_larger_unpacked_is_read_whole(codec: int) -> None:
    found = decode(foreign_batch(codec=codec, count=40, size=200_000), 0)
    assert sum(len(r.value or b"") for r in found.records) > 8_000_000


def test_the_records_of_plain_batches_are_counted_without_reading_them() -> None:
    batches = foreign_batch(count=3), foreign_batch(base=3, count=300)
    assert contents(b"".join(batches)) == Contents(303, packed=False)
    assert contents(b"".join(batches)[:-1]) == Contents(303, packed=False)
    assert contents(b"") == Contents(0, packed=False)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_batches_say_whether_some_are_packed(codec: int) -> None:
    plain, packed = foreign_batch(), foreign_batch(base=3, codec=codec)
    assert contents(plain + packed) == Contents(6, packed=True)
    assert is_one_plain(b"")
    assert is_one_plain(plain)
    assert not is_one_plain(plain + packed)
    assert not is_one_plain(packed)


@pytest.mark.parametrize("codec", [1, 4])
async def test_what_is_packed_is_taken_apart_on_the_loop_only_if_it_is_little(codec: int) -> None:
    little, much = (foreign_batch(codec=codec, count=count, size=2) for count in (300, 3_000))
    assert len(much) < 32 * 1024
    turns = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.call_soon(turns.set)
    assert len((await chunk_of(FetchedPart(PARTITION, 0, little), 0)).records) == 300
    assert not turns.is_set()
    # A plain batch in front does not change that.
    after = foreign_batch(count=1) + much
    assert len((await chunk_of(FetchedPart(PARTITION, 0, after), 0)).records) == 3_001
    assert turns.is_set()
    turns.clear()
    loop.call_soon(turns.set)
    assert len((await chunk_of(FetchedPart(PARTITION, 0, much), 0)).records) == 3_000
    assert turns.is_set()


# Snappy makes no more of this little.
@pytest.mark.parametrize("codec", [1, 3, 4])
async def test_little_that_is_much_decompressed_is_taken_apart_beside_the_loop(codec: int) -> None:
    huge = foreign_batch(codec=codec, count=1, size=3_000_000)
    assert len(huge) < 32 * 1024
    turns = asyncio.Event()
    asyncio.get_running_loop().call_soon(turns.set)
    (record,) = (await chunk_of(FetchedPart(PARTITION, 0, huge), 0)).records
    assert record.value == b"0" + b"v" * 3_000_000
    assert turns.is_set()


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_room_for_a_small_batch_is_not_taken_for_all_that_is_allowed(codec: int) -> None:
    small = foreign_batch(codec=codec, count=1, size=1_000)
    tracemalloc.start()
    assert len(decode(small, 0).records) == 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_records_below_the_offset_asked_for_are_left_out() -> None:
    found = decode(foreign_batch(base=10) + foreign_batch(base=13), 12)
    assert [r.offset for r in found.records] == [12, 13, 14, 15]
    assert found.next_offset == 16


def test_the_end_of_a_transaction_is_passed_over() -> None:
    found = decode(foreign_batch(base=0) + control_batch(3) + foreign_batch(base=4), 0)
    assert [r.offset for r in found.records] == [0, 1, 2, 4, 5, 6]
    only_control = decode(control_batch(7), 7)
    assert (only_control.records, only_control.next_offset) == ([], 8)


def test_records_of_aborted_transactions_are_passed_over() -> None:
    log = b"".join(
        [
            transactional_batch(0, producer=1),
            transactional_batch(3, producer=2),
            transactional_batch(6, producer=1, codec=1),
            foreign_batch(base=9),
            control_batch(12, producer=1),
            transactional_batch(13, producer=1),
            control_batch(16, producer=2),
            control_batch(17, producer=1),
            transactional_batch(18, producer=2),
            control_batch(21, producer=2),
        ]
    )
    # The first of producer 1 and the second of producer 2.
    aborted = [AbortedTransaction(2, 18), AbortedTransaction(1, 0)]
    found = decode(log, 0, aborted)
    assert [r.offset for r in found.records] == [3, 4, 5, 9, 10, 11, 13, 14, 15]
    assert found.next_offset == 22
    assert [r.offset for r in decode(log, 4, aborted).records] == [4, 5, 9, 10, 11, 13, 14, 15]
    assert len(decode(log, 0).records) == 18


def test_a_batch_cut_off_by_the_end_of_the_answer_waits_for_the_next_one() -> None:
    whole, cut = foreign_batch(base=0), foreign_batch(base=3)[:-1]
    found = decode(whole + cut, 0)
    assert (len(found.records), found.next_offset) == (3, 3)
    assert decode(b"", 5).next_offset == 5
    assert decode(cut[:30], 3).next_offset == 3


def test_null_keys_and_values_are_none_and_empty_ones_are_empty() -> None:
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1000)
    builder.append(timestamp=NOW_MS, key=None, value=None, headers=[("h", None)])
    builder.append(timestamp=NOW_MS, key=b"", value=b"", headers=[])
    builder.close()
    null, empty = decode(bytes(builder.buffer()), 0).records
    assert (null.key, null.value, null.headers) == (None, None, [(b"h", b"")])
    assert (empty.key, empty.value, empty.headers) == (b"", b"", [])


def test_a_topic_that_counts_by_the_broker_s_time_gives_that() -> None:
    batch = bytearray(foreign_batch())
    batch[22] |= 0x08
    batch[35:43] = (NOW_MS + 999).to_bytes(8, "big")
    assert {r.timestamp_ms for r in decode(with_checksum(batch), 0).records} == {NOW_MS + 999}


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_from_before_kafka_0_11_are_read(magic: int) -> None:
    builder = MemoryRecordsBuilder(magic=magic, compression_type=0, batch_size=1000)
    for n in range(3):
        builder.append(timestamp=NOW_MS, key=b"k", value=b"%d" % n)
    builder.close()
    found = decode(bytes(builder.buffer()), 1)
    assert [(r.offset, r.key, r.value) for r in found.records] == [(1, b"k", b"1"), (2, b"k", b"2")]


def legacy_message(magic: int, codec: int, size: int) -> bytes:
    """Three messages in one as kafka-python's producer writes them, with a broker's offset."""
    builder = MemoryRecordsBuilder(magic=magic, compression_type=codec, batch_size=1 << 24)
    for n in range(3):
        builder.append(timestamp=NOW_MS, key=b"k", value=b"%d" % n + b"v" * size)
    builder.close()
    return (2).to_bytes(8, "big") + bytes(builder.buffer())[8:]


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_compressed_messages_from_before_kafka_0_11_are_read(codec: int) -> None:
    found = decode(legacy_message(1, codec, size=1000), 1)
    assert [(r.offset, r.value[:1]) for r in found.records if r.value] == [(1, b"1"), (2, b"2")]
    assert found.size > 3000


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_old_messages_that_are_too_large_decompressed_are_passed_over(codec: int) -> None:
    usual = foreign_batch(base=3)
    raw = legacy_message(1, codec, size=100_000) + usual
    first = decode(raw, 0, decompressed_max=100_000)
    assert (first.records, first.next_offset, first.passed_over) == ([], 3, 2)
    assert first.cut
    found = decode(usual + raw, 0, decompressed_max=400_000)
    assert (len(found.records), found.cut) == (9, False)


@pytest.mark.parametrize("codec", [0, 1])
def test_a_damaged_message_from_before_kafka_0_11_is_an_error(codec: int) -> None:
    builder = MemoryRecordsBuilder(magic=1, compression_type=codec, batch_size=1000)
    builder.append(timestamp=NOW_MS, key=b"k", value=b"v" * 100)
    builder.close()
    damaged = bytearray(builder.buffer())
    damaged[-1] ^= 0x01
    with pytest.raises(CorruptBatchError, match="checksum"):
        decode(bytes(damaged), 0)


@pytest.mark.parametrize("place", [21, 60, 80])
def test_a_damaged_batch_is_an_error_and_not_a_message(place: int) -> None:
    batch = bytearray(foreign_batch())
    batch[place] ^= 0x40
    with pytest.raises(CorruptBatchError, match="checksum"):
        decode(bytes(batch), 0)


def test_a_record_that_runs_over_its_batch_is_an_error() -> None:
    batch = bytearray(foreign_batch())
    batch[57:61] = (99).to_bytes(4, "big")
    with pytest.raises(CorruptBatchError, match="ends inside"):
        decode(with_checksum(batch), 0)


@pytest.mark.parametrize("length", [-1, 0, 4, 40])
def test_a_batch_of_an_impossible_length_is_an_error(length: int) -> None:
    batch = foreign_batch()
    with pytest.raises(CorruptBatchError):
        decode(batch[:8] + length.to_bytes(4, "big", signed=True) + batch[12:], 0)


def test_an_unknown_codec_is_an_error() -> None:
    batch = bytearray(foreign_batch())
    batch[22] |= 0x07
    with pytest.raises(CorruptBatchError, match="codec 7"):
        decode(with_checksum(batch), 0)


def test_a_packed_batch_that_does_not_unpack_is_an_error() -> None:
    batch = bytearray(foreign_batch(codec=1))
    batch[61:71] = bytes(10)
    with pytest.raises(CorruptBatchError, match="codec 1"):
        decode(with_checksum(batch), 0)


def test_keys_go_where_kafka_s_own_producers_send_them() -> None:
    # From the tests of org.apache.kafka.common.utils.Utils.murmur2, made positive, modulo 1000.
    hashes = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    for key, value in hashes.items():
        assert partition_of(key, 1000) == (value & 0x7FFFFFFF) % 1000


@pytest.mark.parametrize("codec", sorted(CODECS.keys() - {"none"}))
def test_a_batch_that_is_too_large_decompressed_is_passed_over(codec: str) -> None:
    huge = foreign_batch(codec=CODECS[codec], base=3, count=1, size=200_000)
    usual = [foreign_batch(codec=CODECS[codec], base=base) for base in (0, 4)]
    raw = usual[0] + huge + usual[1]
    assert [each.offset for each in decode(raw, 0).records] == list(range(7))
    first = decode(raw, 0, decompressed_max=100_000)
    # What is decompressed already is taken first.
    assert (len(first.records), first.next_offset, first.passed_over) == (3, 3, None)
    assert first.cut
    assert first.size >= len(raw)
    # The batches behind it are for the next answer: each could take as long.
    second = decode(huge + usual[1], 3, decompressed_max=100_000)
    assert (second.records, second.next_offset, second.passed_over) == ([], 4, 3)
    third = decode(usual[1], 4, decompressed_max=100_000)
    assert (len(third.records), third.cut, third.passed_over) == (3, False, None)


def test_batches_are_decompressed_no_further_than_one_answer_may_be() -> None:
    raw = b"".join(foreign_batch(codec=4, base=3 * n, size=10_000) for n in range(10))
    found = decode(raw, 0, decompressed_max=100_000)
    assert (len(found.records), found.next_offset) == (9, 9)
    assert 90_000 < found.size <= 100_000
    assert decode(raw, 0).next_offset == 30


@pytest.mark.parametrize("codec", sorted(CODECS.keys() - {"none"}))
def test_what_ends_within_its_compression_is_corrupt(codec: str) -> None:
    whole = foreign_batch(codec=CODECS[codec], count=1)
    cut = bytearray(whole[:-3])
    cut[8:12] = (len(cut) - 12).to_bytes(4)
    with pytest.raises(CorruptBatchError, match=r"compression codec|ends inside a record"):
        decode(with_checksum(cut), 0)

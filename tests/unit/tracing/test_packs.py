"""Packs of trace entries: what goes in comes out, and nothing else is taken for one."""

import pytest
import zstandard

from app.domain.message import NewRecord, Record
from app.domain.trace import TraceSource
from app.tracing.packs import HEADER_TRACES, VERSION, Pack, TraceRow, packed, unpacked

SOURCE = TraceSource(topic="a.b", subscription_id="s", subscription="n")
ROW = TraceRow(7, 1, "FAILED", "m", 2, 3, 4, None, "why", None, 5, 6, 7, "here", "batch", "again")


def read(record: NewRecord) -> Pack | None:
    return unpacked(Record(0, 0, None, record.value, list(record.headers)))


def a_record(value: bytes, version: bytes = VERSION) -> NewRecord:
    return NewRecord(value=value, headers=((HEADER_TRACES, version),))


def test_a_pack_comes_back_as_it_was() -> None:
    pack = Pack("w", 9, 2, "full", {7: SOURCE}, [tuple(ROW)])
    record = packed(pack)
    back = read(record)
    assert back is not None
    assert back.value == record.value
    assert back._replace(rows=[tuple(row) for row in back.rows], value=b"") == pack


def test_a_lone_surrogate_in_a_reason_costs_no_pack() -> None:
    pack = Pack("w", 9, 0, "", {7: SOURCE}, [ROW._replace(reason="a\ud800b"), ROW])
    back = read(packed(pack))
    assert back is not None
    assert [row[8] for row in back.rows] == ["a?b", "why"]


def test_a_thousand_entries_take_a_few_bytes_each() -> None:
    rows = [ROW._replace(message_id=f"{n:032x}", offset=n) for n in range(1_000)]
    assert len(packed(Pack("w", 9, 0, "", {7: SOURCE}, rows)).value) < 30_000


@pytest.mark.parametrize(
    "record",
    [
        NewRecord(value=packed(Pack("w", 9, 0, "", {}, [])).value),
        a_record(packed(Pack("w", 9, 0, "", {}, [])).value, b"2"),
        a_record(b""),
        a_record(b"not compressed"),
        a_record(packed(Pack("w", 9, 0, "", {}, [])).value[:-3]),
        a_record(zstandard.compress(b"{}")),
        a_record(zstandard.compress(b"[1, 2]")),
        a_record(zstandard.compress(b'["w", 1, 0, "", [[1]], []]')),
        a_record(zstandard.compress(b'[["w"], 1, 0, "", [], []]')),
        a_record(zstandard.compress(b'["w", "1", 0, "", [], []]')),
        a_record(zstandard.compress(b'["w", 1, 0, "", [], 7]')),
        a_record(zstandard.compress(b"7")),
        a_record(zstandard.compress(b"no json")),
    ],
)
def test_what_is_no_pack_is_passed_over(record: NewRecord) -> None:
    assert read(record) is None

"""The entries of one message are found in a pack as if all of it had been read."""

from collections.abc import Mapping, Sequence

import orjson
import pytest
import zstandard

from app.domain.trace import TraceSource
from app.tracing.pack_search import pack_about
from app.tracing.packs import Pack, TraceRow, packed, read_pack

PLAIN = TraceRow(7, 1, "FAILED", "m", 2, 3, 4, None, "why", None, 5, 6, 7, "here", "batch", "again")
SOURCES = {
    7: TraceSource(topic="a.b", subscription_id="s", subscription="n"),
    8: TraceSource(topic='a "b" ]],[[1,2,"UP","m"', subscription_id="\\", subscription="[{\n"),
}
IDS = [
    "m",
    "m-2",
    "",
    ",",
    "[",
    "\\",
    '"',
    '","',
    "SUCCESS",
    "FAILED",
    "why",
    "n",
    "\N{SNOWMAN}\0\n",
    'x","y',
    '[7,1,"FAILED","m",',
    '],[7,1,"FAILED","m"',
]
TEXTS = ["", '[7,1,"FAILED","m",2', "[7,1,", "]]]", "\\", '\\"', "m", "[", "a[b\\"]
ROWS = [
    tuple(
        PLAIN._replace(
            message_id=each,
            source=7 + n % 2,
            status=("FAILED", "SUCCESS")[n % 2],
            reason=text,
            batch_id=each,
        )
    )
    for n, (each, text) in enumerate((each, text) for each in IDS for text in TEXTS)
]


def in_json(
    rows: Sequence[Sequence[object]], sources: Mapping[int, TraceSource], option: int = 0
) -> bytes:
    named = [
        (number, each.topic, each.subscription_id, each.subscription)
        for number, each in sources.items()
    ]
    return zstandard.compress(orjson.dumps(["w", 9, 0, "", named, rows], option=option))


@pytest.mark.parametrize("message_id", [*IDS, "none"])
def test_all_rows_of_the_message_are_found_and_no_others(message_id: str) -> None:
    value = packed(Pack('w"],[', -9, 2, "full\\", SOURCES, ROWS)).value
    assert value is not None
    all_of_it, found = read_pack(value), pack_about(value, message_id)
    assert all_of_it is not None
    rows = [row for row in all_of_it.rows if row[3] == message_id]
    assert len(rows) == (len(TEXTS) if message_id in IDS else 0)
    assert (found and found._replace(value=b"")) == all_of_it._replace(rows=rows, value=b"")


def test_a_pack_that_is_written_otherwise_is_read_all_the_same() -> None:
    value = in_json(ROWS, SOURCES, orjson.OPT_INDENT_2)
    found = pack_about(value, "m-2")
    assert found is not None
    assert [row[3] for row in found.rows] == ["m-2"] * len(TEXTS)


def test_a_pack_without_sources_or_rows_has_none() -> None:
    assert pack_about(in_json([], {}), "m") == Pack("w", 9, 0, "", {}, [], in_json([], {}))


@pytest.mark.parametrize(
    "value",
    [
        b"not compressed",
        zstandard.compress(b"no json"),
        zstandard.compress(b'["w",1,0,"",[[1]],[]]'),
        zstandard.compress(b'["w",1,0,"",[],7]'),
    ],
)
def test_what_is_no_pack_has_nothing(value: bytes) -> None:
    assert pack_about(value, "m") is None

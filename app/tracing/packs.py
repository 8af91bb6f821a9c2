"""Packs many trace entries into one record of the stream of traces.

A pack is compressed JSON: `[worker, at, lost, why, sources, rows]`.

* `worker`, `at`: the worker that wrote the pack, and when.
* `lost`, `why`: how many entries of this worker are in no pack, and the reason.
* `sources`: each is `[number, topic, subscription id, subscription]`.
* `rows`: each is an entry (`TraceRow`), and begins with the number of its source.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
import zstandard

from app.domain.message import NewRecord, Record
from app.domain.trace import TraceSource

HEADER_TRACES: Final = b"t"
VERSION: Final = b"1"
# The maximum size of a pack after decompression. A larger record was not written by Angelia.
UNPACKED_MAX: Final = 16 * 1024 * 1024

# The types of the six parts of a pack.
_TYPES: Final = (str, int, int, str, list, list)
_COMPRESSOR: Final = zstandard.ZstdCompressor(level=1, write_checksum=True)


class TraceRow(NamedTuple):
    """One trace entry.

    `at` is in microseconds since the epoch. All other times are durations in microseconds. `source`
    is the number of a source in the pack. `status` is the value of a TraceStatus. Code that must be
    fast makes plain tuples (`PlainRow`), which takes a quarter of the time.
    """

    source: int
    at: int
    status: str
    message_id: str
    partition: int
    offset: int
    attempt: int
    status_code: int | None
    reason: str
    queued: int | None
    waited: int | None
    connect: int | None
    took: int | None
    address: str
    batch_id: str
    retransmission: str


# An entry before it is packed: its source takes the place of the number.
PlainRow = tuple[
    TraceSource, int, str, str, int, int, int, int | None, str,
    int | None, int | None, int | None, int | None, str, str, str,
]  # fmt: skip


class Pack(NamedTuple):
    """Trace entries of one process.

    Each row in `rows` begins with the number of its source. `sources` maps this number to the
    source. `value` is the value of the pack's record, and empty if there is no record yet.
    """

    worker: str
    at: int
    lost: int
    why: str
    sources: Mapping[int, TraceSource]
    rows: Sequence[Sequence[Any]]
    value: bytes = b""


def numbered(
    rows: Iterable[PlainRow],
) -> tuple[Mapping[int, TraceSource], Sequence[Sequence[Any]]]:
    """Return the sources of these rows by number, and the rows with these numbers."""
    numbers: dict[TraceSource, int] = {}
    with_numbers = [(numbers.setdefault(row[0], len(numbers)), *row[1:]) for row in rows]
    return {number: source for source, number in numbers.items()}, with_numbers


def packed(pack: Pack) -> NewRecord:
    """Return the record that stores the pack."""
    sources = [
        (number, each.topic, each.subscription_id, each.subscription)
        for number, each in pack.sources.items()
    ]
    content = [pack.worker, pack.at, pack.lost, pack.why, sources, pack.rows]
    try:
        text = orjson.dumps(content)
    except TypeError:
        # Replace lone surrogates (invalid characters). A reason may contain them, because it quotes
        # a response.
        text = orjson.dumps([*content[:5], [_mended(row) for row in pack.rows]])
    return NewRecord(value=_COMPRESSOR.compress(text), headers=((HEADER_TRACES, VERSION),))


def unpacked(record: Record) -> Pack | None:
    """Return the pack in a record; None if the record is not a pack."""
    if record.header(HEADER_TRACES) != VERSION or not record.value:
        return None
    return read_pack(record.value)


def read_pack(value: bytes) -> Pack | None:
    """Return the pack in a record's value; None if it is not a pack."""
    try:
        return pack_of(orjson.loads(text_of(value)), value)
    except (zstandard.ZstdError, ValueError, TypeError):
        return None


def text_of(value: bytes) -> bytes:
    """Return the decompressed JSON in a record's value.

    Raises:
        zstandard.ZstdError: The value cannot be decompressed.
    """
    return zstandard.ZstdDecompressor().decompress(value, max_output_size=UNPACKED_MAX)


def pack_of(content: Any, value: bytes = b"") -> Pack | None:  # noqa: ANN401 - JSON can have any type
    """Return the pack in parsed JSON; None if the JSON has another form.

    Raises:
        ValueError: A value is not valid.
        TypeError: A value has the wrong type.
    """
    if tuple(map(type, content)) != _TYPES:
        return None
    worker, at, lost, why, sources, rows = content
    named = {
        number: TraceSource(topic=topic, subscription_id=its_id, subscription=name)
        for number, topic, its_id, name in sources
    }
    return Pack(worker, at, lost, why, named, rows, value)


def _mended(row: Iterable[Any]) -> list[Any]:
    return [
        each.encode("utf-8", "replace").decode() if isinstance(each, str) else each for each in row
    ]

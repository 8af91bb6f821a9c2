"""Converts packs of trace entries to rows of `trace_packs`, and rows back to entries."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from app.domain.trace import TraceEntry, TraceSource, TraceStatus
from app.storage.tables import pack_key
from app.tracing.pack_search import pack_about
from app.tracing.packs import Pack, TraceRow, packed, read_pack

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PackRow(NamedTuple):
    """A row of `trace_packs`, in the order of its columns."""

    at: datetime
    first_at: datetime
    sources: list[int]
    partitions: list[int]
    first_offsets: list[int]
    message_keys: list[int]
    body: bytes


# The PostgreSQL types of the columns of `trace_packs`.
TYPES: Final = ("timestamptz", "timestamptz", "int4[]", "int4[]", "int8[]", "int4[]", "bytea")
COPY: Final = "COPY trace_packs ({}) FROM STDIN (FORMAT binary)".format(", ".join(PackRow._fields))


def pack_row(pack: Pack, ids: Mapping[TraceSource, int]) -> PackRow:
    """Return the row of a pack with at least one entry; `ids` are the ids of its sources."""
    moments = [row[1] for row in pack.rows]
    firsts = _first_offsets(pack)
    return PackRow(
        at=_EPOCH + timedelta(microseconds=max(moments)),
        first_at=_EPOCH + timedelta(microseconds=min(moments)),
        sources=[ids[pack.sources[source]] for source, _ in firsts],
        partitions=[partition for _, partition in firsts],
        first_offsets=list(firsts.values()),
        message_keys=[pack_key(each) for each in {row[3] for row in pack.rows}],
        body=pack.value or packed(pack).value or b"",
    )


def entries_in(body: bytes, message_id: str) -> Iterator[TraceEntry]:
    """Yield the entries about one message from a pack."""
    pack = pack_about(body, message_id)
    if pack is not None:
        yield from (_entry(TraceRow(*row), pack) for row in pack.rows)


def positions_in(
    body: bytes, subscription_id: str, *, when: tuple[datetime, datetime], ends: frozenset[str]
) -> list[tuple[int, int]]:
    """Return the positions (partition, offset) in a pack's entries about a subscription.

    Only entries from the time `when` are used, and only those whose status is in `ends`.
    """
    pack = read_pack(body)
    if pack is None:
        return []
    first, end = ((moment - _EPOCH) // timedelta(microseconds=1) for moment in when)
    own = {n for n, each in pack.sources.items() if each.subscription_id == subscription_id}
    return [
        (row[4], row[5])
        for row in pack.rows
        if row[0] in own and first <= row[1] < end and row[2] in ends and row[5] >= 0
    ]


def _first_offsets(pack: Pack) -> Mapping[tuple[int, int], int]:
    firsts: dict[tuple[int, int], int] = {}
    for row in pack.rows:
        partition, offset = (row[0], row[4]), row[5]
        if 0 <= offset < firsts.get(partition, offset + 1):
            firsts[partition] = offset
    return firsts


def _entry(row: TraceRow, pack: Pack) -> TraceEntry:
    return TraceEntry(
        source=pack.sources[row.source],
        message_id=row.message_id,
        at=_EPOCH + timedelta(microseconds=row.at),
        status=TraceStatus(row.status),
        partition=row.partition,
        offset=row.offset,
        attempt=row.attempt,
        status_code=row.status_code,
        reason=row.reason,
        queued=_span(row.queued),
        waited=_span(row.waited),
        connect=_span(row.connect),
        took=_span(row.took),
        worker=pack.worker,
        address=row.address,
        batch_id=row.batch_id,
        retransmission=row.retransmission,
    )


def _span(microseconds: int | None) -> timedelta | None:
    return None if microseconds is None else timedelta(microseconds=microseconds)

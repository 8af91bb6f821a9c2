"""Rows of `traces` in the binary form of PostgreSQL's COPY: a few microseconds each.

Text would cost as much again on either side, most of it for times.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any, Final

from app.domain.trace import TraceStatus
from app.storage.trace_tables import trace_key

# In the order of `_FIXED`, then of what follows it.
COLUMNS: Final = (
    "at",
    "message_key",
    "offset",
    "source",
    "partition",
    "attempt",
    "status_code",
    "queued",
    "waited",
    "connect",
    "took",
    "status",
    "message_id",
    "reason",
    "worker",
    "address",
    "batch_id",
    "retransmission",
)
COPY: Final = "COPY traces ({}) FROM STDIN (FORMAT binary)".format(
    ", ".join(f'"{name}"' for name in COLUMNS)
)
HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"

# Microseconds from 1970 to 2000, where PostgreSQL's times begin.
_EPOCH: Final = 946_684_800_000_000
_FIXED: Final = Struct(">hiqiqiqiiiiii")
_LENGTH: Final = Struct(">i")
_INTEGER: Final = Struct(">ii")
_REAL: Final = Struct(">if")
_NULL: Final = b"\xff\xff\xff\xff"
_EMPTY: Final = bytes(4)
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()


def copied(rows: Iterable[Sequence[Any]], sources: dict[int, int], *, worker: str) -> bytes:
    """`rows` (see app.tracing.packing.Row), whose sources have those ids in the database."""
    said_by = _text(worker)
    return b"".join([_row(row, sources[row[0]], said_by) for row in rows])


def _row(row: Sequence[Any], source: int, worker: bytes) -> bytes:
    (
        _, at, status, message_id, partition, offset, attempt, code, reason,
        queued, waited, connect, took, address, batch_id, retransmission,
    ) = row  # fmt: skip
    key = trace_key(message_id)
    return b"".join(
        (
            _FIXED.pack(
                len(COLUMNS), 8, at - _EPOCH, 8, key, 8, offset, 4, source, 4, partition, 4, attempt
            ),
            _NULL if code is None else _INTEGER.pack(4, code),
            _NULL if queued is None else _REAL.pack(4, queued / 1e3),
            _NULL if waited is None else _REAL.pack(4, waited / 1e3),
            _NULL if connect is None else _REAL.pack(4, connect / 1e3),
            _NULL if took is None else _REAL.pack(4, took / 1e3),
            _STATUSES[status],
            _text(message_id),
            _text(reason) if reason else _EMPTY,
            worker,
            _text(address) if address else _EMPTY,
            _text(batch_id) if batch_id else _EMPTY,
            _text(retransmission) if retransmission else _EMPTY,
        )
    )


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8", "replace")
    if 0 in encoded:
        # PostgreSQL's text cannot hold it.
        encoded = encoded.replace(b"\0", _REPLACEMENT)
    return _LENGTH.pack(len(encoded)) + encoded


_STATUSES: Final = {status.value: _text(status.value) for status in TraceStatus}

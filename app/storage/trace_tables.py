"""The tables of traces, as core tables: their rows come by COPY, and in millions.

`traces` has a partition for each day (UTC), `traces_20260131`, made and dropped as time goes by
(`app.storage.trace_days`). A row is about 180 bytes and its two index entries 50: names are kept
once, in `trace_sources`, and ids of messages are indexed by a number (`trace_key`).
"""

from hashlib import blake2b
from typing import Final

from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
)

from app.storage.models import NAMING

metadata: Final = MetaData(naming_convention=NAMING)

TRACES: Final = Table(
    "traces",
    metadata,
    # Widest first: PostgreSQL pads what is not aligned.
    Column("at", DateTime(timezone=True), nullable=False),
    Column("message_key", BigInteger, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("source", Integer, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("status_code", Integer),
    # Milliseconds.
    Column("queued", REAL),
    Column("waited", REAL),
    Column("connect", REAL),
    Column("took", REAL),
    Column("status", Text, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("batch_id", Text, nullable=False),
    Column("retransmission", Text, nullable=False),
    Index("ix_traces_message", "message_key"),
    Index("ix_traces_source", "source", "at"),
    postgresql_partition_by="RANGE (at)",
)

# Topics, and subscriptions by the id of their incarnation, of which there may be traces.
TRACE_SOURCES: Final = Table(
    "trace_sources",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("topic", Text, nullable=False),
    Column("subscription_id", Text, nullable=False),
    Column("subscription", Text, nullable=False),
    Column(
        "seen_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()
    ),
    UniqueConstraint("topic", "subscription_id"),
    Index("ix_trace_sources_subscription_id", "subscription_id"),
)

# Entries that are not in `traces` although they should be, and why.
TRACE_LOSSES: Final = Table(
    "trace_losses",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("worker", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Index("ix_trace_losses_at", "at"),
)


def trace_key(message_id: str) -> int:
    """What the message is found by in the index; few ids share one, if any."""
    digest = blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)

"""The tables of traces, without classes for rows, because many rows are written by COPY.

`trace_packs` has a partition for each day (UTC), such as `trace_packs_20260131`, created and
dropped by `app.storage.traces.days`. A row is a compressed pack of entries in the form of
`app.tracing.packs`. The row also has search keys: a number for each of its messages (`pack_key`),
and the first offset of each partition of each source. A pack of 500 entries about as many messages
takes 40 KB, half of it for the index. As single rows, the entries took 115 KB, and two to four
times the CPU.

`traces` has the rows of earlier versions. It is only read, and its days are dropped when they are
too old.
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
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    func,
)
from sqlalchemy.dialects.postgresql import ARRAY

from app.storage.tables.base import Base

TRACE_PACKS: Final = Table(
    "trace_packs",
    Base.metadata,
    # The times of the last entry and of the first entry of the pack.
    Column("at", DateTime(timezone=True), nullable=False),
    Column("first_at", DateTime(timezone=True), nullable=False),
    # Three lists of the same length, for the entries about deliveries: a source, one of its
    # partitions, and the first offset in this partition.
    Column("sources", ARRAY(Integer), nullable=False),
    Column("partitions", ARRAY(Integer), nullable=False),
    Column("first_offsets", ARRAY(BigInteger), nullable=False),
    Column("message_keys", ARRAY(Integer), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index(
        "ix_trace_packs_message_keys",
        "message_keys",
        postgresql_using="gin",
        # Update the index immediately. Otherwise PostgreSQL would first collect new entries in a
        # list, and every look-up would have to read this list too.
        postgresql_with={"fastupdate": "off"},
    ),
    postgresql_partition_by="RANGE (at)",
)

TRACES: Final = Table(
    "traces",
    Base.metadata,
    # The columns are ordered by width, because PostgreSQL adds padding before columns that are not
    # aligned.
    Column("at", DateTime(timezone=True), nullable=False),
    Column("message_key", BigInteger, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("source", Integer, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("status_code", Integer),
    # The durations are in milliseconds.
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

# The sources that may have traces: topics, and subscriptions by the id of their incarnation.
TRACE_SOURCES: Final = Table(
    "trace_sources",
    Base.metadata,
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

# How many entries are missing in the traces, and why.
TRACE_LOSSES: Final = Table(
    "trace_losses",
    Base.metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("worker", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Index("ix_trace_losses_at", "at"),
)


def pack_key(message_id: str) -> int:
    """Return the key by which the packs of a message are found.

    The probability that another message id has the same key is one in four billion.
    """
    digest = blake2b(message_id.encode("utf-8", "replace"), digest_size=4).digest()
    return int.from_bytes(digest, signed=True)


def trace_key(message_id: str) -> int:
    """Return the key by which a message is found in the table `traces`.

    It is very improbable that another message id has the same key.
    """
    digest = blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)

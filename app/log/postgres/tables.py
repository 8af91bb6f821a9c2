"""The tables of the embedded log, for Alembic. The log itself uses plain SQL.

`log_records.headers` has all headers of a record as one value, one header after the other. Each
header has name length (u16), value length (u32), name and value, with big-endian lengths
(`codec.py`).
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    func,
)
from sqlalchemy.dialects.postgresql import ARRAY

metadata: Final = MetaData()

# The column `name` includes the namespace. A deleted topic has no name, and its records are dropped
# later.
log_topics = Table(
    "log_topics",
    metadata,
    Column("id", Integer, Identity(), nullable=False),
    Column("name", Text),
    Column("retention_ms", BigInteger, nullable=False),
    Column("message_size_max", Integer, nullable=False),
    PrimaryKeyConstraint("id", name="log_topics_pkey"),
    UniqueConstraint("name", name="log_topics_name_key"),
)

# The first and the next offset of each partition. An append locks the row of its partition, so
# appends come one after the other. Half of each page of this table is left free, so that an updated
# row stays on its page and no index changes.
log_partitions = Table(
    "log_partitions",
    metadata,
    Column("topic_id", Integer, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("start_offset", BigInteger, nullable=False, server_default="0"),
    Column("next_offset", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("topic_id", "partition", name="log_partitions_pkey"),
    ForeignKeyConstraint(["topic_id"], ["log_topics.id"], name="log_partitions_topic_id_fkey"),
    postgresql_with={"fillfactor": 50},
)

# Records have no foreign key to their topic. It would be checked for each record, and records are
# dropped a little later than their topic. `appended_at` is the server's time, and decides when a
# record is dropped. `timestamp_ms` is the publisher's time.
log_records = Table(
    "log_records",
    metadata,
    Column("topic_id", Integer, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("appended_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("key", LargeBinary),
    Column("value", LargeBinary),
    Column("headers", LargeBinary, nullable=False),
    PrimaryKeyConstraint("topic_id", "partition", "offset", name="log_records_pkey"),
)

log_offsets = Table(
    "log_offsets",
    metadata,
    Column("group_name", Text, nullable=False),
    Column("topic_id", Integer, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("committed_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    PrimaryKeyConstraint("group_name", "topic_id", "partition", name="log_offsets_pkey"),
    ForeignKeyConstraint(
        ["topic_id", "partition"],
        ["log_partitions.topic_id", "log_partitions.partition"],
        name="log_offsets_partition_fkey",
        ondelete="CASCADE",
    ),
    Index("log_offsets_partition_idx", "topic_id", "partition"),
)

# A member exists while its database session holds the advisory lock on the member's id. Ids are
# never reused.
log_members = Table(
    "log_members",
    metadata,
    Column("id", Integer, Identity(), nullable=False),
    Column("group_name", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("capacity", Float, nullable=False),
    Column("topics", ARRAY(Text), nullable=False, server_default="{}"),
    Column("seen_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    PrimaryKeyConstraint("id", name="log_members_pkey"),
)

# The owner of each partition. A row is deleted together with the member that it names.
log_owners = Table(
    "log_owners",
    metadata,
    Column("topic_id", Integer, nullable=False),
    Column("partition", Integer, nullable=False),
    Column(
        "member_id",
        Integer,
        ForeignKey("log_members.id", name="log_owners_member_id_fkey", ondelete="CASCADE"),
        nullable=False,
    ),
    PrimaryKeyConstraint("topic_id", "partition", name="log_owners_pkey"),
    ForeignKeyConstraint(
        ["topic_id", "partition"],
        ["log_partitions.topic_id", "log_partitions.partition"],
        name="log_owners_partition_fkey",
        ondelete="CASCADE",
    ),
    Index("log_owners_member_id_idx", "member_id"),
)

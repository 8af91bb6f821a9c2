"""Creates, measures and drops partitions of PostgreSQL tables."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.storage.locks import hold

LOCK_TIMEOUT: Final = "2s"


async def hold_partitions(session: AsyncSession, lock: str) -> None:
    """Keep other processes from creating or dropping partitions until this transaction ends.

    If the transaction then waits for the lock of a table longer than LOCK_TIMEOUT, it fails. Other
    transactions would have to wait behind it. The caller tries again later.
    """
    await session.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
    await hold(session, lock)


async def partition_sizes(session: AsyncSession, parent: str) -> Mapping[str, int]:
    """Return the names of a table's partitions, and their sizes in bytes, with indexes."""
    found = await session.execute(
        text(
            "SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_inherits i"
            " JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = CAST(:parent AS regclass)"
        ),
        {"parent": parent},
    )
    return {name: int(size) for name, size in found}


async def add_partition(
    session: AsyncSession, parent: str, name: str, *, values: str, storage: str = ""
) -> None:
    """Create a partition for a range of values, with these storage parameters.

    `values` is the range in SQL, such as `FROM (…) TO (…)`.
    """
    # Create the table separately, and then attach it as a partition. The creation of a table as a
    # partition would wait for all readers and writers of the parent table.
    await session.execute(text(f"CREATE TABLE {name} (LIKE {parent} INCLUDING ALL) {storage}"))
    await session.execute(text(f"ALTER TABLE {parent} ATTACH PARTITION {name} FOR VALUES {values}"))


async def drop_partition(session: AsyncSession, name: str) -> None:
    """Drop a partition with all its rows."""
    await session.execute(text(f"DROP TABLE {name}"))

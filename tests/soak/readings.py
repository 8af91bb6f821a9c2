"""What is read of the processes of the service, and of its database, every few seconds."""

import asyncio
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import httpx
import psutil
import psycopg

from tests.soak.curves import Measure

MB: Final = 1_000_000
# Limits are well above what noise looks like in two hours, and below what a leak would be: the
# churn deletes some 300 subscriptions in an hour.
RSS: Final = Measure(name="RSS", unit="MB", limit=6)
USS: Final = Measure(name="private memory (USS)", unit="MB", limit=6)
PSS: Final = Measure(name="PSS", unit="MB", limit=6)
FILES: Final = Measure(name="file descriptors", unit="", limit=40)
THREADS: Final = Measure(name="threads", unit="", limit=1)
TASKS: Final = Measure(name="asyncio tasks", unit="", limit=10)
LAG: Final = Measure(name="loop lag", unit="ms", limit=5)
CPU: Final = Measure(name="CPU", unit="% of a core", limit=None)
WAITING: Final = Measure(name="messages that wait", unit="", limit=2_000)
DISCARDED: Final = Measure(name="undelivered messages", unit="", limit=None)
STATE: Final = Measure(name="tables of the present state", unit="MB", limit=6)
RECORDS: Final = Measure(name="tables of what happened", unit="MB", limit=None)
DATABASE: Final = Measure(name="whole database", unit="MB", limit=None)
LIVE: Final = Measure(name="live rows of the present state", unit="", limit=500)
RECORD_ROWS: Final = Measure(name="live rows of what happened", unit="", limit=None)
DEAD: Final = Measure(name="dead rows", unit="", limit=2_000)
MEASURES: Final = (
    *(CPU, RSS, USS, PSS, FILES, THREADS, TASKS, LAG, WAITING, DISCARDED),
    *(DATABASE, STATE, RECORDS, LIVE, RECORD_ROWS, DEAD),
)
# Tables that keep what happened, for days or longer: they grow until the oldest of it is deleted.
OF_RECORDS: Final = re.compile(
    r"(audit_events|alerts|discard_retractions|metrics_history.*|metrics_recorded|tombstones"
    r"|trace_packs.*|traces.*|trace_sources|trace_losses|undelivered|idempotent_requests"
    r"|retransmissions)$"
)
_TABLES: Final = """
    SELECT relname, n_live_tup, n_dead_tup, pg_total_relation_size(relid)
    FROM pg_stat_user_tables
"""
_SIZE: Final = "SELECT pg_database_size(current_database())"

# A value by the measure, and of what it was measured.
Values = dict[tuple[Measure, str], float]


class TableSize(NamedTuple):
    """Live and dead rows of a table, as PostgreSQL estimates them, and its size with indexes."""

    live: int
    dead: int
    size_mb: float

    def plus(self, other: "TableSize") -> "TableSize":
        """Return the sum of both."""
        return TableSize(
            self.live + other.live, self.dead + other.dead, self.size_mb + other.size_mb
        )


# The tables by name, partitions of a day together.
Tables = dict[str, TableSize]


def read_process(name: str, process: psutil.Process) -> Values:
    """Return what the system knows of a process."""
    memory = process.memory_full_info()
    return {
        (RSS, name): memory.rss / MB,
        (USS, name): memory.uss / MB,
        (PSS, name): memory.pss / MB,
        (FILES, name): process.num_fds(),
        (THREADS, name): process.num_threads(),
    }


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU time of a process in seconds, of all its threads."""
    times = process.cpu_times()
    return times.user + times.system


async def read_page(name: str, http: httpx.AsyncClient, url: str) -> Values:
    """Return what a process shows of itself; nothing while it is too busy to answer."""
    try:
        page = (await http.get(url)).raise_for_status().text
    except httpx.HTTPError:
        return {}
    values: Values = {
        (TASKS, name): _sum(page, "angelia_event_loop_tasks"),
        (LAG, name): _sum(page, "angelia_event_loop_lag_seconds") * 1_000,
    }
    if "angelia_subscription_lag_messages" in page:
        values[WAITING, "log"] = _sum(page, "angelia_subscription_lag_messages")
        values[DISCARDED, "log"] = _sum(page, "angelia_subscription_discarded_total")
    return values


def _sum(page: str, name: str) -> float:
    return sum(map(float, re.findall(rf"^{name}(?:{{.*}})? (\S+)", page, re.MULTILINE)))


async def read_database(url: str) -> tuple[Values, Tables]:
    """Return sizes and rows of the database, and of each of its tables."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    async with connection:
        rows = await (await connection.execute(_TABLES)).fetchall()
        size = await (await connection.execute(_SIZE)).fetchone()
    tables: Tables = {}
    for name, live, dead, size_b in rows:
        table = re.sub(r"_p?\d[\d_]*$", "", name)
        found = TableSize(live, dead, size_b / MB)
        tables[table] = tables.get(table, TableSize(0, 0, 0.0)).plus(found)
    return {**of_tables(tables), (DATABASE, "database"): (size or (0,))[0] / MB}, tables


def of_tables(tables: Tables) -> Values:
    """Return the sums over tables of the present state, and over those of what happened."""
    records, state = TableSize(0, 0, 0.0), TableSize(0, 0, 0.0)
    for name, table in tables.items():
        if OF_RECORDS.match(name):
            records = records.plus(table)
        else:
            state = state.plus(table)
    return {
        (RECORDS, "database"): records.size_mb,
        (STATE, "database"): state.size_mb,
        (RECORD_ROWS, "database"): records.live,
        (LIVE, "database"): state.live,
        (DEAD, "database"): records.dead + state.dead,
    }


async def read_all(reads: Mapping[str, psutil.Process]) -> Values:
    """Return what the system knows of all processes, read beside the event loop."""
    found = await asyncio.gather(
        *(asyncio.to_thread(read_process, name, process) for name, process in reads.items())
    )
    return {key: value for values in found for key, value in values.items()}

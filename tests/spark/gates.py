"""A runner stands still at a chosen write to the database, so that a test can kill it there."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import psycopg

from tests.contract.logs import eventually
from tests.spark.test_offline_retransmission import is_held

# Rows of these tables are held: while the job reports, stores its choice, stores archived bodies,
# and in the transaction that ends it.
TABLES: Final = ("spark_jobs", "retransmission_runs", "retransmission_records", "retransmissions")
# A choice takes most of the time of a job.
WEIGHTS: Final = (1, 2, 2, 1)
_WHEN: Final = {
    "spark_jobs": (
        "UPDATE",
        "NEW.kind = 'RETRANSMISSION' AND NEW.step NOT IN ('', 'Starting Spark')",
    ),
    "retransmission_runs": ("INSERT", "true"),
    "retransmission_records": ("INSERT", "true"),
    "retransmissions": ("UPDATE", "OLD.state = 'REQUESTED' AND NEW.state = 'SENDING'"),
}
_FUNCTION: Final = """
CREATE TABLE held (place text, at int);
INSERT INTO held VALUES ('', 0);
CREATE SEQUENCE held_writes;
CREATE FUNCTION hold_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT place FROM held) = TG_TABLE_NAME AND nextval('held_writes') = (SELECT at FROM held)
  THEN PERFORM pg_advisory_xact_lock_shared(77);
  END IF;
  RETURN NEW;
END $$;
"""
_TRIGGER: Final = (
    "CREATE TRIGGER hold_write BEFORE {} ON {} FOR EACH ROW WHEN ({}) EXECUTE FUNCTION hold_write()"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The write to a table, counted from 1, before which the runner stands still."""

    table: str
    write: int


def moments(seed: int, count: int, *, rows: int) -> Sequence[Moment]:
    """So many moments by chance. A choice has at least `rows` rows in each of its tables."""
    dice = random.Random(seed)
    most = {"retransmission_runs": rows, "retransmission_records": rows}
    tables = dice.choices(TABLES, weights=WEIGHTS, k=count)
    return [Moment(table=each, write=dice.randint(1, most.get(each, 1))) for each in tables]


class Gate:
    """Holds one write of a runner at a time."""

    def __init__(self, connection: psycopg.AsyncConnection) -> None:
        self._connection = connection

    async def close_at(self, moment: Moment) -> None:
        """From now on, the runner stands still at that moment."""
        await self._connection.execute("SELECT pg_advisory_lock(77)")
        await self._connection.execute("ALTER SEQUENCE held_writes RESTART")
        await self._connection.execute(
            "UPDATE held SET place = %s, at = %s", [moment.table, moment.write]
        )

    async def reached(self, *, seconds: float) -> None:
        """Wait until the runner stands there."""
        await eventually(partial(is_held, self._connection), seconds=seconds)

    async def open(self) -> None:
        """Nothing is held any more, and the claim of the runner that was killed has ended."""
        await self._connection.execute("UPDATE held SET place = ''")
        await self._connection.execute("SELECT pg_advisory_unlock(77)")
        # Else the next runner would wait for the time of the claim to pass. Kills do not add up: on
        # a busy machine, a living runner may lose its claim, too, and a job fails at the third.
        await self._connection.execute(
            "UPDATE spark_jobs SET lease_until = clock_timestamp(), lost = 0"
            " WHERE state = 'RUNNING'"
        )


@asynccontextmanager
async def a_gate(url: str) -> AsyncIterator[Gate]:
    """A gate in that database."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(_FUNCTION)
        for table, (event, condition) in _WHEN.items():
            await connection.execute(_TRIGGER.format(event, table, condition))
        yield Gate(connection)

"""Circuits shared by name, as workers tell each other through the database."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from app.domain.circuit import SharedCircuit
from app.storage.database import Database
from app.storage.notices import CIRCUITS, listen
from app.storage.runtime.circuits import CircuitRepository

MINUTE = timedelta(minutes=1)
A_WHILE = timedelta(seconds=5)


def a_circuit(name: str = "invoices", **changed: object) -> SharedCircuit:
    opened = SharedCircuit(
        name=name,
        number=0,
        open=True,
        opens_in=MINUTE,
        since=datetime(2026, 11, 21, 12, tzinfo=UTC),
        reason="a.b_c: 5 failures in a row",
    )
    return replace(opened, **changed)  # type: ignore[arg-type]  # as given


async def told(database: Database, circuit: SharedCircuit) -> int | None:
    async with database.transaction() as session:
        return await CircuitRepository(session).write(circuit)


async def read(database: Database, *names: str) -> list[SharedCircuit]:
    async with database.transaction() as session:
        return await CircuitRepository(session).read(names)


async def leased(
    database: Database, circuit: SharedCircuit, worker: str, *, length: timedelta = MINUTE
) -> bool:
    async with database.transaction() as session:
        return await CircuitRepository(session).lease(circuit, worker, length=length)


async def opened(database: Database, name: str = "invoices") -> SharedCircuit:
    """A circuit that was told and is known."""
    number = await told(database, a_circuit(name))
    return a_circuit(name, number=number)


async def test_a_circuit_is_read_as_it_was_told(database: Database) -> None:
    circuit = await opened(database)
    [found] = await read(database, "invoices", "unknown")
    assert MINUTE - A_WHILE < found.opens_in < MINUTE
    assert replace(found, opens_in=MINUTE) == circuit


async def test_only_who_knows_its_last_change_changes_it(database: Database) -> None:
    circuit = await opened(database)
    assert await told(database, a_circuit(reason="too late")) is None
    number = await told(database, replace(circuit, open=False))
    [found] = await read(database, "invoices")
    assert (found.open, found.number) == (False, number)
    assert number != circuit.number


async def test_one_that_was_dropped_and_told_again_has_another_number(database: Database) -> None:
    circuit = await opened(database)
    async with database.transaction() as session:
        await CircuitRepository(session).prune(timedelta(days=-1))
    assert await read(database, "invoices") == []
    assert (await opened(database)).number != circuit.number


async def test_others_are_woken_by_a_change_and_by_no_other_attempt(
    database: Database, postgres_url: str
) -> None:
    async with listen(postgres_url, [CIRCUITS]) as notices:
        for woken in ({CIRCUITS}, set[str]()):
            await told(database, a_circuit())
            assert await notices.wait(A_WHILE if woken else timedelta(milliseconds=100)) == woken


async def test_one_worker_at_a_time_has_leave_to_try_a_circuit(database: Database) -> None:
    circuit = await opened(database)
    assert await leased(database, circuit, "w1")
    assert not await leased(database, circuit, "w2")
    assert await leased(database, circuit, "w1")
    async with database.transaction() as session:
        await CircuitRepository(session).release("invoices", "w2")
    assert not await leased(database, circuit, "w2")
    async with database.transaction() as session:
        await CircuitRepository(session).release("invoices", "w1")
    assert await leased(database, circuit, "w2")


async def test_leave_that_is_over_is_anyones(database: Database) -> None:
    circuit = await opened(database)
    assert await leased(database, circuit, "w1", length=timedelta(0))
    assert await leased(database, circuit, "w2")


async def test_there_is_no_leave_for_what_was_changed_since_or_is_closed(
    database: Database,
) -> None:
    circuit = await opened(database)
    assert not await leased(database, replace(circuit, number=0), "w1")
    assert await leased(database, circuit, "w1")
    again = replace(circuit, number=await told(database, circuit) or 0)
    assert not await leased(database, circuit, "w1")
    assert await leased(database, again, "w2")
    closed = replace(again, number=await told(database, replace(again, open=False)) or 0)
    assert not await leased(database, closed, "w2")


async def test_what_nobody_changed_for_long_is_dropped_unless_it_is_still_open(
    database: Database,
) -> None:
    for name in ("old", "open", "new"):
        await told(database, a_circuit(name, opens_in=timedelta(0)))
    async with database.transaction() as session:
        await session.execute(
            text(
                "UPDATE circuits SET changed_at = now() - interval '1 hour',"
                " opens_at = now() + CASE name WHEN 'open' THEN interval '1 hour'"
                " ELSE interval '-1 hour' END WHERE name <> 'new'"
            )
        )
        await CircuitRepository(session).prune(MINUTE)
    assert [each.name for each in await read(database, "old", "open", "new")] == ["new", "open"]

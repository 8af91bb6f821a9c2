"""Stores circuits that subscriptions share by name: the states, and who may send the next probe."""

from collections.abc import Collection
from datetime import timedelta
from typing import Final

from sqlalchemy import BigInteger, cast, delete, extract, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.circuit import SharedCircuit
from app.storage.notices import CIRCUITS
from app.storage.tables import CircuitRow

_EPOCH_MS: Final = cast(extract("epoch", func.clock_timestamp()) * 1000, BigInteger)


class CircuitRepository:
    """The shared circuits.

    Callers pass durations instead of times, so that only the database's clock is used.
    """

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def read(self, names: Collection[str]) -> list[SharedCircuit]:
        """Return the known circuits with these names."""
        row = CircuitRow
        opens_in = (row.opens_at - func.clock_timestamp()).label("opens_in")
        query = select(row.name, row.number, row.open, opens_in, row.since, row.reason)
        rows = await self._session.execute(query.where(row.name.in_(names)).order_by(row.name))
        return [SharedCircuit(**each) for each in rows.mappings()]

    async def write(self, circuit: SharedCircuit) -> int | None:
        """Store the circuit's state, and return its new number.

        Other workers are notified at the commit. The number in `circuit` says which state the
        caller knows; 0 means that no state was ever stored. Return None if another worker has
        changed the circuit since then.
        """
        values = {
            "open": circuit.open,
            "opens_at": func.clock_timestamp() + circuit.opens_in,
            "since": circuit.since,
            "reason": circuit.reason,
            "changed_at": func.clock_timestamp(),
            "tried_by": None,
            "tried_until": None,
        }
        stored = (
            insert(CircuitRow)
            # Number a new circuit from the current time on. So a circuit that was deleted and is
            # stored again never has one of its old numbers.
            .values(name=circuit.name, number=_EPOCH_MS, **values)
            .on_conflict_do_update(
                index_elements=["name"],
                set_=values | {"number": CircuitRow.number + 1},
                where=CircuitRow.number == circuit.number,
            )
            .returning(CircuitRow.number)
        )
        number = await self._session.scalar(stored)
        if number is not None:
            await self._session.execute(select(func.pg_notify(CIRCUITS, "")))
        return number

    async def lease(self, circuit: SharedCircuit, worker_id: str, *, length: timedelta) -> bool:
        """Reserve the circuit's probe for the worker, for `length`. Return whether this succeeded.

        The call fails if another worker has reserved the probe, or if the circuit was changed.
        """
        now = func.clock_timestamp()
        row = CircuitRow
        leased = (
            update(row)
            .where(row.name == circuit.name, row.number == circuit.number, row.open)
            .where(or_(row.tried_by == worker_id, row.tried_until.is_(None), row.tried_until < now))
            .values(tried_by=worker_id, tried_until=now + length)
            .returning(row.name)
        )
        return await self._session.scalar(leased) is not None

    async def release(self, name: str, worker_id: str) -> None:
        """Release the worker's reservation of the probe."""
        await self._session.execute(
            update(CircuitRow)
            .where(CircuitRow.name == name, CircuitRow.tried_by == worker_id)
            .values(tried_by=None, tried_until=None)
        )

    async def prune(self, within: timedelta) -> None:
        """Delete circuits that did not change for the time `within`.

        An open circuit would allow a probe after this time anyway, so nothing is lost.
        """
        last = func.greatest(CircuitRow.changed_at, CircuitRow.opens_at)
        await self._session.execute(
            delete(CircuitRow).where(last < func.clock_timestamp() - within)
        )

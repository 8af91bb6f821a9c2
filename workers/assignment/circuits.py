"""Circuits that workers share: each publishes its changes, and reads those of the others.

Nobody waits for the database to open or close a circuit. Half open, one worker at a time has leave
to send the one message; while the database is down each gives leave to itself.
"""

import time
from collections.abc import Collection
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.circuit import SharedCircuit
from app.domain.errors import UnavailableError
from workers.delivery.circuits import Circuits, LiveCircuit

# A notification may be lost with its connection; so often we look for ourselves.
POLL_INTERVAL: Final = timedelta(seconds=1)
# A worker with leave renews it each second. One that died keeps the others waiting for this long.
LEASE: Final = timedelta(seconds=5)

_log = structlog.get_logger()


class CircuitStore(Protocol):
    """Where workers share circuits; all but `wait` raise UnavailableError."""

    async def read(self, names: Collection[str]) -> Collection[SharedCircuit]:
        """The circuits of these names that any worker published."""

    async def publish(self, circuit: SharedCircuit) -> int | None:
        """It is so now; returns the number of this change, or None: another one was quicker."""

    async def lease(self, circuit: SharedCircuit, *, length: timedelta) -> bool:
        """Let this worker send its one message, and nobody else for so long; whether it may."""

    async def release(self, name: str) -> None:
        """This worker does not send its one message."""

    async def wait(self, at_most: timedelta) -> None:
        """Return when somebody published something, or after `at_most`."""


class CircuitSharing:
    """Shares circuits with other workers, as nothing else does. Without shared ones it rests."""

    def __init__(
        self, circuits: Circuits, store: CircuitStore, *, lease: timedelta = LEASE
    ) -> None:
        self._lease_length = lease
        self._circuits = circuits
        self._store = store
        # Their one message is ours to send.
        self._leased: set[str] = set()

    async def run(self) -> None:
        """Publish and read what there is, until cancelled."""
        work = self._circuits.work
        while True:
            await work.wait()
            work.clear()
            await self._try_exchange()

    async def listen(self) -> None:
        """Read what others published as soon as they did, until cancelled."""
        while True:
            await self._circuits.any_shared.wait()
            await self._store.wait(POLL_INTERVAL)
            self._circuits.work.set()

    async def _try_exchange(self) -> None:
        circuits = self._circuits.shared
        self._leased.intersection_update(circuit.name for circuit in circuits)
        if not circuits:
            return
        try:
            await self._exchange(circuits)
        except UnavailableError as exc:
            _log.warning("circuits_not_shared", error=exc.message)
            for circuit in circuits:
                if circuit.circuit.wanted:
                    circuit.grant(time.monotonic())

    async def _exchange(self, circuits: Collection[LiveCircuit]) -> None:
        for circuit in circuits:
            if circuit.unpublished:
                await self._publish(circuit)
            await self._see_to_leave(circuit)
        shared = {each.name: each for each in await self._store.read([c.name for c in circuits])}
        now = time.monotonic()
        for circuit in circuits:
            if circuit.name in shared:
                circuit.adopt(shared[circuit.name], now)
            else:
                circuit.unknown_to_others(now)

    async def _publish(self, circuit: LiveCircuit) -> None:
        changes = circuit.changes
        number = await self._store.publish(circuit.shown(time.monotonic()))
        if number is None:
            circuit.overtaken()
        else:
            circuit.published(changes, number)

    async def _see_to_leave(self, circuit: LiveCircuit) -> None:
        """Get leave where it is waited for, keep it while it is used, give back what is not."""
        machine = circuit.circuit
        if machine.wanted:
            if await self._lease(circuit):
                circuit.grant(time.monotonic())
            else:
                machine.deny()
        elif machine.probing:
            await self._lease(circuit)
        elif circuit.name in self._leased and not machine.has_leave(time.monotonic()):
            self._leased.discard(circuit.name)
            await self._store.release(circuit.name)

    async def _lease(self, circuit: LiveCircuit) -> bool:
        leased = await self._store.lease(circuit.shown(time.monotonic()), length=self._lease_length)
        if leased:
            self._leased.add(circuit.name)
        return leased

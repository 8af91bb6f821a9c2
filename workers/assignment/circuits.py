"""Circuits that workers share. Each worker publishes changes, and reads other workers' changes.

A change is that a circuit opens or closes. No worker waits for the database before it opens or
closes a circuit. While a circuit is half-open, only one worker at a time has permission to send the
probe. While the database is down, each worker sends probes without permission.
"""

import time
from collections.abc import Collection
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.circuit import SharedCircuit
from app.domain.errors import UnavailableError
from workers.delivery.circuits import Circuits, LiveCircuit

# How often the worker reads changes of circuits without a notification. A notification may be lost
# when its connection is lost.
POLL_INTERVAL: Final = timedelta(seconds=1)
# How long a permission to send the probe is valid. A worker renews its permission each second. If
# the worker dies, the other workers wait this long.
LEASE: Final = timedelta(seconds=5)

_log = structlog.get_logger()


class CircuitStore(Protocol):
    """The store in which workers share circuits.

    All methods except `wait` may raise UnavailableError.
    """

    async def read(self, names: Collection[str]) -> Collection[SharedCircuit]:
        """Return the published circuits with these names."""

    async def publish(self, circuit: SharedCircuit) -> int | None:
        """Publish the state of the circuit.

        Returns:
            The number of this change. None if another worker has published a change first.
        """

    async def lease(self, circuit: SharedCircuit, *, length: timedelta) -> bool:
        """Reserve the right to send the circuit's probe for this worker, for the time `length`.

        Return whether this worker has the right now.
        """

    async def release(self, name: str) -> None:
        """Give up the right to send the circuit's probe, so that another worker can get it."""

    async def wait(self, at_most: timedelta) -> None:
        """Wait until another worker has published a change, but not longer than `at_most`."""


class CircuitSharing:
    """Shares circuits with other workers. No other class does this.

    While this worker has no shared circuits, nothing is read from or written to the store.
    """

    def __init__(
        self, circuits: Circuits, store: CircuitStore, *, lease: timedelta = LEASE
    ) -> None:
        self._lease_length = lease
        self._circuits = circuits
        self._store = store
        # The names of the circuits for which this worker has the right to send the probe.
        self._leased: set[str] = set()

    async def run(self) -> None:
        """Publish this worker's changes and read the changes of other workers, until cancelled."""
        work = self._circuits.work
        while True:
            await work.wait()
            work.clear()
            await self._try_exchange()

    async def listen(self) -> None:
        """Read the changes of other workers as soon as they are published, until cancelled."""
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
        """Keep the right to send the circuit's probe only while this worker needs it.

        Reserve the right if the circuit wants to send a probe. Renew it while a probe is in flight,
        and release it after the probe has ended.
        """
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

"""Circuits that several workers share, in memory instead of in a database."""

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from app.domain.circuit import SharedCircuit
from tests.fakes.signal import Signal


@dataclass(frozen=True, slots=True)
class ToldCircuit:
    """A circuit as a worker last stored it.

    Attributes:
        circuit: The state of the circuit.
        told_at: When the state was stored, in seconds of the monotonic clock.
        tried_by: The worker that has the lease to send the trial message; empty if none has.
        tried_until: The end of that lease, in seconds of the monotonic clock.
    """

    circuit: SharedCircuit
    told_at: float
    tried_by: str = ""
    tried_until: float = 0.0


class Plane(Protocol):
    """The memory in which circuits are stored."""

    circuits: dict[str, ToldCircuit]
    changed: Signal

    def answer(self) -> None:
        """Raise UnavailableError while the memory counts as down."""


class CircuitTalk:
    """The shared circuits as one worker reads and stores them."""

    def __init__(self, plane: Plane, worker_id: str) -> None:
        self._plane = plane
        self._id = worker_id

    async def read(self, names: Collection[str]) -> list[SharedCircuit]:
        self._plane.answer()
        published = [self._plane.circuits[name] for name in names if name in self._plane.circuits]
        now = time.monotonic()
        return [
            replace(
                each.circuit, opens_in=each.circuit.opens_in - timedelta(seconds=now - each.told_at)
            )
            for each in published
        ]

    async def publish(self, circuit: SharedCircuit) -> int | None:
        self._plane.answer()
        known = self._plane.circuits.get(circuit.name)
        if known is not None and known.circuit.number != circuit.number:
            return None
        published = replace(circuit, number=circuit.number + 1)
        self._plane.circuits[circuit.name] = ToldCircuit(published, time.monotonic())
        self._plane.changed.send()
        return published.number

    async def lease(self, circuit: SharedCircuit, *, length: timedelta) -> bool:
        self._plane.answer()
        known = self._plane.circuits.get(circuit.name)
        if known is None or not known.circuit.open or known.circuit.number != circuit.number:
            return False
        now = time.monotonic()
        if known.tried_by not in {"", self._id} and now < known.tried_until:
            return False
        until = now + length.total_seconds()
        leased = replace(known, tried_by=self._id, tried_until=until)
        self._plane.circuits[circuit.name] = leased
        return True

    async def release(self, name: str) -> None:
        self._plane.answer()
        known = self._plane.circuits.get(name)
        if known is not None and known.tried_by == self._id:
            self._plane.circuits[name] = replace(known, tried_by="")

    async def wait(self, at_most: timedelta) -> None:
        await self._plane.changed.wait(at_most.total_seconds())

"""The circuits of one worker: one for each name that subscriptions give, and their own ones."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

import structlog

from app.domain.circuit import CircuitBreaker, CircuitReading, SharedCircuit
from app.domain.delivery import Outcome
from workers.delivery.circuit import Circuit

_log = structlog.get_logger()


class CircuitMember(Protocol):
    """Sends through a circuit."""

    def on_change(self, circuit: Circuit) -> None:
        """It was opened or closed, or its one message may be sent: see what may leave now."""


class LiveCircuit:
    """A circuit with all of this worker that send through it, and which change others know.

    Without a name it belongs to one subscription alone.

    `number` is that of the last change which all workers know, 0 before the first. Changes by
    this worker are counted, so that one which comes while the one before is being published is not
    forgotten.
    """

    def __init__(self, name: str, work: asyncio.Event) -> None:
        self.name = name
        self.circuit = Circuit(time.monotonic(), shared=bool(name))
        self.members: set[CircuitMember] = set()
        self.number = 0
        self._work = work
        # The member that sent its one message last.
        self._tried_by = ""
        # How often it was opened or closed here.
        self.changes = 0
        self._published = 0

    # ---- for members ----------------------------------------------------------------------------

    def wait(self, now: float) -> float:
        """As `Circuit.wait`; leave is requested where it is needed."""
        circuit = self.circuit
        wanted = circuit.wanted
        wait = circuit.wait(now)
        if circuit.wanted and not wanted:
            self._work.set()
        return wait

    def sent(self, now: float, *, by: str) -> None:
        """A message of `by` leaves."""
        self.circuit.sent(now)
        if self.circuit.probing:
            self._tried_by = by

    def report(
        self, outcome: Outcome, rule: CircuitBreaker, *, sent_at: float, now: float, by: str
    ) -> None:
        """As `Circuit.report`, for a message of `by`; members are notified if this changed it."""
        circuit = self.circuit
        if not circuit.report(outcome, rule, sent_at=sent_at, now=now):
            return
        if self.name and not circuit.closed:
            circuit.reason = f"{by}: {circuit.reason}"
        _log.info("circuit_changed", circuit=self.name, by=by, closed=circuit.closed)
        self._changed()

    def part(self, member: CircuitMember, *, by: str) -> None:
        """`member` reports nothing any more, also not of messages of `by` that are in flight."""
        self.members.discard(member)
        if self.circuit.probing and self._tried_by == by:
            self.circuit.withdraw()
            self._notify()

    def retime(self, rule: CircuitBreaker) -> None:
        """As `Circuit.retime`."""
        if self.circuit.retime(rule):
            self._changed()

    def reading(self, now: float) -> CircuitReading:
        """Its state for people to see; `now` is monotonic."""
        circuit = self.circuit
        since = datetime.now(UTC) - timedelta(seconds=now - circuit.since)
        state = circuit.state(now)
        # To the second: it is reported again and again.
        return CircuitReading(
            state=state, since=since.replace(microsecond=0), reason=circuit.reason
        )

    # ---- for sharing with other workers ---------------------------------------------------------

    @property
    def unpublished(self) -> bool:
        """Whether others do not know yet how it is."""
        return self.changes != self._published

    def published(self, changes: int, number: int) -> None:
        """Others know it as it was after so many changes; that is the change `number`."""
        self._published, self.number = changes, number

    def overtaken(self) -> None:
        """Another worker was quicker: its change counts."""
        self._published = self.changes

    def shown(self, now: float) -> SharedCircuit:
        """It as others are to know it."""
        circuit = self.circuit
        return SharedCircuit(
            name=self.name,
            number=self.number,
            open=not circuit.closed,
            opens_in=timedelta(seconds=circuit.opens_at - now),
            since=datetime.now(UTC) - timedelta(seconds=now - circuit.since),
            reason=circuit.reason,
        )

    def adopt(self, shared: SharedCircuit, now: float) -> None:
        """Take over its state from another worker."""
        if self.unpublished or shared.number == self.number:
            return
        self.number = shared.number
        if shared.open:
            since = now - (datetime.now(UTC) - shared.since).total_seconds()
            opens_at = now + shared.opens_in.total_seconds()
            self.circuit.adopt_open(since=since, opens_at=opens_at, reason=shared.reason, now=now)
            self._notify()
        elif self.circuit.adopt_closed(now):
            self._notify()

    def unknown_to_others(self, now: float) -> None:
        """No other worker knows it: publish an open one again, so that leave can be had for it."""
        if self.circuit.closed:
            if self.circuit.adopt_closed(now):
                self._notify()
        elif not self.unpublished:
            self.number = 0
            self.changes += 1
            self._work.set()

    def grant(self, now: float) -> None:
        """Its one message may be sent from here."""
        self.circuit.grant(now)
        self._notify()

    def _changed(self) -> None:
        self.changes += 1
        if self.name:
            self._work.set()
        self._notify()

    def _notify(self) -> None:
        for member in tuple(self.members):
            member.on_change(self.circuit)


class Circuits:
    """Finds circuits by name. A shared one is known while someone sends through it."""

    def __init__(self) -> None:
        self._shared: dict[str, LiveCircuit] = {}
        # Something is to be published to other workers, or read.
        self.work = asyncio.Event()
        self.any_shared = asyncio.Event()

    @property
    def shared(self) -> list[LiveCircuit]:
        """Those that others may send through, too."""
        return list(self._shared.values())

    def join(self, name: str, member: CircuitMember) -> LiveCircuit:
        """The circuit of that name; without a name one of its own."""
        circuit = self._shared.get(name) or self._begun(name)
        circuit.members.add(member)
        return circuit

    def leave(self, circuit: LiveCircuit, member: CircuitMember, *, by: str) -> None:
        """`member`, which sends for `by`, sends nothing through it any more."""
        circuit.part(member, by=by)
        if not circuit.members:
            self._shared.pop(circuit.name, None)
            if not self._shared:
                self.any_shared.clear()

    def _begun(self, name: str) -> LiveCircuit:
        circuit = LiveCircuit(name, self.work)
        if name:
            self._shared[name] = circuit
            self.any_shared.set()
            self.work.set()
        return circuit

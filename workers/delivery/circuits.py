"""The circuits of one worker: shared ones, which have names, and those of one subscription each."""

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
    """A subscription's consumer on this worker, which sends only what the circuit allows."""

    def has_new(self) -> bool:
        """Whether a message without an attempt could probably be sent now."""

    def on_change(self, circuit: Circuit) -> None:
        """Called when the circuit opened or closed, or when a probe may be sent."""


class LiveCircuit:
    """A circuit with its members on this worker, and whether other workers know its state.

    A circuit without a name belongs to one subscription.

    `number` is the number of the last change of the circuit that a worker has stored; 0 if there is
    none. `changes` counts this worker's own changes. By this count, a change is not lost if it
    happens while an earlier change is being stored.
    """

    def __init__(self, name: str, work: asyncio.Event) -> None:
        self.name = name
        self.circuit = Circuit(time.monotonic(), shared=bool(name))
        # The members with the names of their subscriptions. A member that sends a probe becomes the
        # last one.
        self._members: dict[CircuitMember, str] = {}
        # Whether members with new messages are notified before the others.
        self._new_first = True
        self.number = 0
        self._work = work
        # The member that sent the last probe.
        self._tried_by = ""
        # How often this worker opened or closed the circuit.
        self.changes = 0
        self._published = 0

    # ---- for members of the circuit -------------------------------------------------------------

    @property
    def is_used(self) -> bool:
        """Whether the circuit has members."""
        return bool(self._members)

    def add(self, member: CircuitMember, *, by: str) -> None:
        """Add `member`, which sends for the subscription `by`."""
        self._members[member] = by

    def wait(self, now: float) -> float:
        """Return the seconds until a request may be sent.

        If the worker needs the permission to send a probe, request it.
        """
        circuit = self.circuit
        wanted = circuit.wanted
        wait = circuit.wait(now)
        if circuit.wanted and not wanted:
            self._work.set()
        return wait

    def sent(self, now: float, *, by: str) -> None:
        """Called when a message of the subscription `by` is sent."""
        self.circuit.sent(now)
        if self.circuit.probing:
            self._tried_by = by
            self._end_turn(by)

    def report(
        self, outcome: Outcome, rule: CircuitBreaker, *, sent_at: float, now: float, by: str
    ) -> None:
        """Count the result of a request of the subscription `by`.

        Notify all members if the circuit opened or closed.
        """
        circuit = self.circuit
        if not circuit.report(outcome, rule, sent_at=sent_at, now=now):
            return
        if self.name and not circuit.closed:
            circuit.reason = f"{by}: {circuit.reason}"
        _log.info("circuit_changed", circuit=self.name, by=by, closed=circuit.closed)
        self._changed()

    def part(self, member: CircuitMember, *, by: str) -> None:
        """Remove `member`. No more results of its subscription `by` will come."""
        self._members.pop(member, None)
        if self.circuit.probing and self._tried_by == by:
            self.circuit.withdraw()
            self._notify()

    def retime(self, rule: CircuitBreaker) -> None:
        """Apply a changed `rule`, which says how long the circuit stays open after a failure."""
        if self.circuit.retime(rule):
            self._changed()

    def reading(self, now: float) -> CircuitReading:
        """Return the circuit's state for users to read; `now` is monotonic."""
        circuit = self.circuit
        since = datetime.now(UTC) - timedelta(seconds=now - circuit.since)
        state = circuit.state(now)
        # Round the time to a second. The same state is reported again and again, and its time must
        # stay equal although it is computed each time.
        return CircuitReading(
            state=state, since=since.replace(microsecond=0), reason=circuit.reason
        )

    # ---- for sharing with other workers ---------------------------------------------------------

    @property
    def unpublished(self) -> bool:
        """Whether other workers do not know the current state yet."""
        return self.changes != self._published

    def published(self, changes: int, number: int) -> None:
        """Called when the circuit's state was stored for other workers.

        Args:
            changes: The count of this worker's changes that the stored state contains.
            number: The number that the stored change got.
        """
        self._published, self.number = changes, number

    def overtaken(self) -> None:
        """Called when another worker's change was stored first. The stored change is valid."""
        self._published = self.changes

    def shown(self, now: float) -> SharedCircuit:
        """Return the state to store for other workers."""
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
        """Take over the state that another worker has stored."""
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
        """Called when no state of this circuit is stored.

        Other workers treat a circuit without a stored state as closed. If the circuit is open in
        this worker, its state is stored again. Otherwise no worker could get the permission to send
        a probe.
        """
        if self.circuit.closed:
            if self.circuit.adopt_closed(now):
                self._notify()
        elif not self.unpublished:
            self.number = 0
            self.changes += 1
            self._work.set()

    def grant(self, now: float) -> None:
        """Give this worker the permission to send the probe, and notify the members."""
        self.circuit.grant(now)
        self._notify()

    def _changed(self) -> None:
        self.changes += 1
        if self.name:
            self._work.set()
        self._notify()

    def _notify(self) -> None:
        for member in self._in_turn():
            member.on_change(self.circuit)

    def _in_turn(self) -> list[CircuitMember]:
        """Return the members in the order in which they may send the next probe.

        The first member that can send takes the probe, so all members must be notified.
        """
        if self.circuit.closed:
            return list(self._members)  # return any order: all members may send
        return sorted(self._members, key=self._place)

    def _place(self, member: CircuitMember) -> tuple[bool, bool]:
        tried_last = self._members[member] == self._tried_by
        return tried_last, self._new_first and not member.has_new()

    def _end_turn(self, by: str) -> None:
        """Put the member that sends for the subscription `by` after all others."""
        self._members = dict(sorted(self._members.items(), key=lambda item: item[1] == by))
        # Prefer new messages only for every second probe. Otherwise retries would never be sent if
        # all new messages fail.
        self._new_first = not self._new_first


class Circuits:
    """Finds circuits by name. A shared circuit is forgotten when its last member leaves."""

    def __init__(self) -> None:
        self._shared: dict[str, LiveCircuit] = {}
        # This event is set when the state of a circuit must be stored for other workers, or must be
        # read.
        self.work = asyncio.Event()
        self.any_shared = asyncio.Event()

    @property
    def shared(self) -> list[LiveCircuit]:
        """Return the circuits that other workers may use too."""
        return list(self._shared.values())

    def join(self, name: str, member: CircuitMember, *, by: str) -> LiveCircuit:
        """Add `member`, which sends for the subscription `by`, to the shared circuit `name`.

        Return the circuit.

        An empty `name` means a new circuit, which only this member uses.
        """
        circuit = self._shared.get(name) or self._begun(name)
        circuit.add(member, by=by)
        return circuit

    def leave(self, circuit: LiveCircuit, member: CircuitMember, *, by: str) -> None:
        """Remove `member`, which sends for the subscription `by`, from the circuit."""
        circuit.part(member, by=by)
        if not circuit.is_used:
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

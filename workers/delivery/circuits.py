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
    """Who sends through a circuit."""

    def turned(self, circuit: Circuit) -> None:
        """It was opened or closed, or its one message may be sent: see what may leave now."""


class LiveCircuit:
    """A circuit with all of this worker who send through it, and how far others know of it.

    Without a name it is nobody else's.

    `number` is that of the last change which all workers know, 0 before the first. Those of this
    worker that are to be told to others are counted, so that one which comes while the one before
    is being told is not forgotten.
    """

    def __init__(self, name: str, work: asyncio.Event) -> None:
        self.name = name
        self.circuit = Circuit(time.monotonic(), shared=bool(name))
        self.members: set[CircuitMember] = set()
        self.number = 0
        self._work = work
        # Who sent its one message last.
        self._tried_by = ""
        # How often it was opened or closed here.
        self.turns = 0
        self._told = 0

    # ---- for those who send ---------------------------------------------------------------------

    def wait(self, now: float) -> float:
        """As `Circuit.wait`; leave is asked for where it is needed."""
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
        """As `Circuit.report`, for a message of `by`; all hear of it when this turned it."""
        circuit = self.circuit
        if not circuit.report(outcome, rule, sent_at=sent_at, now=now):
            return
        if self.name and not circuit.closed:
            circuit.reason = f"{by}: {circuit.reason}"
        _log.info("circuit_turned", circuit=self.name, by=by, closed=circuit.closed)
        self._turn()

    def part(self, member: CircuitMember, *, by: str) -> None:
        """`member` says nothing any more, also not of messages of `by` that are in flight."""
        self.members.discard(member)
        if self.circuit.probing and self._tried_by == by:
            self.circuit.withdraw()
            self._notify()

    def retime(self, rule: CircuitBreaker) -> None:
        """As `Circuit.retime`."""
        if self.circuit.retime(rule):
            self._turn()

    def reading(self, now: float) -> CircuitReading:
        """Its state for people to see; `now` is monotonic."""
        circuit = self.circuit
        since = datetime.now(UTC) - timedelta(seconds=now - circuit.since)
        state = circuit.state(now)
        # To the second: it is told again and again.
        return CircuitReading(
            state=state, since=since.replace(microsecond=0), reason=circuit.reason
        )

    # ---- for those who tell other workers -------------------------------------------------------

    @property
    def untold(self) -> bool:
        """Whether others do not know yet how it is."""
        return self.turns != self._told

    def told(self, turns: int, number: int) -> None:
        """Others know it as it was after so many turns; that is the change `number`."""
        self._told, self.number = turns, number

    def overtaken(self) -> None:
        """Someone else was quicker: what they say counts."""
        self._told = self.turns

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

    def hear(self, said: SharedCircuit, now: float) -> None:
        """Take over what others say of it."""
        if self.untold or said.number == self.number:
            return
        self.number = said.number
        if said.open:
            since = now - (datetime.now(UTC) - said.since).total_seconds()
            opens_at = now + said.opens_in.total_seconds()
            self.circuit.heard_open(since=since, opens_at=opens_at, reason=said.reason, now=now)
            self._notify()
        elif self.circuit.heard_closed(now):
            self._notify()

    def unheard_of(self, now: float) -> None:
        """Nobody else knows it; an open one is told again, so that leave can be had for it."""
        if self.circuit.closed:
            if self.circuit.heard_closed(now):
                self._notify()
        elif not self.untold:
            self.number = 0
            self.turns += 1
            self._work.set()

    def grant(self, now: float) -> None:
        """Its one message may be sent from here."""
        self.circuit.grant(now)
        self._notify()

    def _turn(self) -> None:
        self.turns += 1
        if self.name:
            self._work.set()
        self._notify()

    def _notify(self) -> None:
        for member in tuple(self.members):
            member.turned(self.circuit)


class Circuits:
    """Finds circuits by name. A shared one is known while someone sends through it."""

    def __init__(self) -> None:
        self._shared: dict[str, LiveCircuit] = {}
        # Something is to be told to other workers, or asked.
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
        """`member`, who sends for `by`, sends nothing through it any more."""
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

"""Which subscription of a shared circuit sends its probe: they take turns."""

import time

import pytest

from app.domain.circuit import CircuitBreaker, TimeUnit
from app.domain.delivery import Delivered, Outcome, Retry
from workers.delivery.circuit import Circuit
from workers.delivery.circuits import Circuits, LiveCircuit

OK = Delivered(status=200)
DOWN = Retry(reason="it is down", status=503)
RULE = CircuitBreaker(errors_threshold=1, trip_timeout=1, trip_timeout_unit=TimeUnit.SECONDS)


class Room:
    """A shared circuit on a clock of its own. Members wake as on an event loop: one by one."""

    def __init__(self) -> None:
        self.now = 0.0
        self.live: LiveCircuit | None = None
        self.circuits = Circuits()
        self.probes = list[str]()
        self.woken = list[Member]()

    def let_in(self, name: str, *, new: bool = False, sends: bool = True) -> "Member":
        """Add a subscription that wants to send: new messages, or retries only."""
        member = Member(self, name, new=new, sends=sends)
        self.live = self.circuits.join("x", member, by=name)
        return member

    def opened_by(self, member: "Member") -> None:
        assert self.live is not None
        self.now = time.monotonic()  # a circuit takes the time at which it begins by itself
        self.live.circuit.adopt_closed(self.now)
        member.send()

    def probe(self, count: int = 1) -> str:
        """Let so many seconds pass, with a probe in each; return who sent them."""
        assert self.live is not None
        before = len(self.probes)
        for _ in range(count):
            self.now = max(self.now + 1, self.live.circuit.opens_at)
            assert self.live.wait(self.now) > 0
            assert self.live.circuit.wanted
            self.woken.clear()
            self.live.grant(self.now)
            for member in tuple(self.woken):
                member.try_to_send()
        return " ".join(self.probes[before:])


class Member:
    """A subscription whose subscriber is down unless it is `up`."""

    def __init__(self, room: Room, name: str, *, new: bool, sends: bool) -> None:
        self._room = room
        self._name = name
        self._new = new
        self._sends = sends
        self.outcome: Outcome = DOWN

    def has_new(self) -> bool:
        return self._new

    def on_change(self, circuit: Circuit) -> None:
        del circuit
        self._room.woken.append(self)

    def try_to_send(self) -> None:
        live = self._room.live
        assert live is not None
        if self._sends and not live.circuit.closed and live.wait(self._room.now) == 0:
            self._room.probes.append(self._name)
            self.send()

    def send(self) -> None:
        live, now = self._room.live, self._room.now
        assert live is not None
        live.sent(now, by=self._name)
        live.report(self.outcome, RULE, sent_at=now, now=now, by=self._name)


@pytest.fixture
def room() -> Room:
    return Room()


def test_a_message_that_always_fails_leaves_the_next_probe_to_the_others(room: Room) -> None:
    room.opened_by(room.let_in("a"))
    assert room.probe(3) == "a a a"
    room.let_in("b", new=True).outcome = OK
    assert room.probe() == "b"
    assert room.live is not None
    assert room.live.circuit.closed


def test_all_members_take_turns(room: Room) -> None:
    first = room.let_in("a")
    room.let_in("b")
    room.let_in("c")
    room.opened_by(first)
    assert room.probe(7) == "a b c a b c a"


def test_who_has_nothing_to_send_is_passed_over(room: Room) -> None:
    first = room.let_in("a")
    room.let_in("b", new=True, sends=False)
    room.let_in("c")
    room.opened_by(first)
    assert room.probe(4) == "a c a c"


def test_a_new_message_waits_for_one_old_one_at_the_most(room: Room) -> None:
    first = room.let_in("a")
    room.let_in("b")
    room.let_in("c")
    room.opened_by(first)
    assert room.probe() == "a"
    room.let_in("d", new=True)
    assert "d" in room.probe(2)


def test_where_all_new_messages_fail_old_ones_try_too(room: Room) -> None:
    first = room.let_in("a", new=True)
    room.let_in("b", new=True)
    room.let_in("c")
    room.let_in("d")
    room.opened_by(first)
    assert set(room.probe(8).split()) == {"a", "b", "c", "d"}


def test_who_leaves_and_comes_back_is_one_member(room: Room) -> None:
    first, second = room.let_in("a"), room.let_in("b")
    room.opened_by(first)
    assert room.live is not None
    room.circuits.leave(room.live, second, by="b")
    assert room.probe(2) == "a a"
    room.live = room.circuits.join("x", second, by="b")
    assert room.probe(3) == "b a b"

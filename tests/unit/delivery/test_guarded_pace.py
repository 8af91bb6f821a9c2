"""A pace that asks a circuit, too."""

import time
from itertools import pairwise

import pytest

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.circuit import CircuitBreaker, CircuitState
from app.domain.delivery import Delivered, Outcome, Retry
from app.domain.status import RateMode
from workers.delivery.circuits import Circuits, LiveCircuit
from workers.delivery.guarded_pace import GuardedPace
from workers.delivery.pace import EndedRequest, Pace
from workers.delivery.share import Share

OK = Delivered(status=200)
DOWN = Retry(reason="it is down", status=500)
RULE = CircuitBreaker(errors_threshold=100, trip_timeout=5)


class Nobody:
    def on_change(self, circuit: object) -> None:
        del circuit

    def has_new(self) -> bool:
        return False


class Traffic:
    """Sends one request after the other, as soon as it may, on a clock of its own."""

    def __init__(self, live: LiveCircuit) -> None:
        self.now = time.monotonic()
        self.pace = Pace(DeliveryPolicy(rate=400), self.now)
        self.pace.share(Share.owned(400, {0}, 1), self.now)
        self.guarded = GuardedPace(self.pace, live, rule=RULE, by="shop.orders_billing")

    def send(self, outcome: Outcome) -> float:
        """Wait, send, and let the answer come after a hundredth of a second; when it was sent."""
        while (wait := self.guarded.wait(self.now)) > 0:
            self.now += wait
        sent_at, epoch = self.now, self.guarded.sent(self.now)
        self.now += 0.01
        self.guarded.learn(EndedRequest(epoch, outcome, 0.01, retried=False, full=False), self.now)
        return sent_at


@pytest.fixture
def live() -> LiveCircuit:
    return Circuits().join("", Nobody(), by="shop.orders_billing")


@pytest.fixture
def traffic(live: LiveCircuit) -> Traffic:
    return Traffic(live)


def fail_until_open(traffic: Traffic, live: LiveCircuit) -> None:
    while live.circuit.closed:
        traffic.send(DOWN)


def test_while_its_circuit_is_open_nothing_leaves_and_nothing_is_read(
    traffic: Traffic, live: LiveCircuit
) -> None:
    traffic.send(OK)
    assert (traffic.guarded.reads_ahead, traffic.guarded.cautious) == (True, False)
    assert traffic.guarded.next_probe is None
    fail_until_open(traffic, live)
    assert not traffic.guarded.reads_ahead
    opened_at = traffic.now
    assert traffic.guarded.next_probe == pytest.approx(opened_at + 5, abs=0.1)
    assert traffic.send(DOWN) - opened_at == pytest.approx(5, abs=0.1)


def test_new_messages_are_preferred_until_it_is_closed(traffic: Traffic, live: LiveCircuit) -> None:
    traffic.pace.configure(DeliveryPolicy(rate=400, adaptive_rate=False), traffic.now)
    fail_until_open(traffic, live)
    assert traffic.guarded.cautious
    traffic.send(OK)
    assert not traffic.guarded.cautious


def test_its_one_message_does_not_wait_for_the_gaps_left_to_a_subscriber_that_is_down(
    traffic: Traffic, live: LiveCircuit
) -> None:
    fail_until_open(traffic, live)
    times = [traffic.send(DOWN) for _ in range(40)]
    assert traffic.pace.output(traffic.now).mode is RateMode.HEARTBEAT
    assert traffic.guarded.next_probe == live.circuit.opens_at
    # Of the adaptive rate's own it would be twenty seconds by now.
    assert all(b - a < 6.1 for a, b in pairwise(times))


def test_while_its_circuit_is_closed_the_pace_says_when_the_next_message_is_tried(
    traffic: Traffic, live: LiveCircuit
) -> None:
    for _ in range(90):
        traffic.send(DOWN)
    assert live.circuit.closed
    assert traffic.guarded.next_probe == traffic.pace.next_probe is not None


def test_what_is_told_of_it_says_how_the_circuit_is(traffic: Traffic, live: LiveCircuit) -> None:
    circuit = traffic.guarded.output(traffic.now).circuit
    assert circuit is not None
    assert (circuit.state, circuit.reason) == (CircuitState.CLOSED, "")
    fail_until_open(traffic, live)
    output = traffic.guarded.output(traffic.now)
    assert output.circuit is not None
    assert (output.rate, output.circuit.state) == (0.0, CircuitState.OPEN)
    assert output.circuit.reason == "100 failures in a row, the last: it is down"

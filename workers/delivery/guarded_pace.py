"""A pace with a circuit: sends nothing while it is open, and a probe while it is half-open."""

from dataclasses import replace

from app.domain.circuit import CircuitBreaker, CircuitState
from app.domain.status import Output
from workers.delivery.circuits import LiveCircuit
from workers.delivery.pace import EndedRequest, Pace


class GuardedPace:
    """Allows a request if `pace` and `circuit` both allow it. `by` is the subscription's id."""

    def __init__(self, pace: Pace, circuit: LiveCircuit, *, rule: CircuitBreaker, by: str) -> None:
        self._pace = pace
        self._circuit = circuit
        self._rule = rule
        self._by = by

    @property
    def cautious(self) -> bool:
        """Whether the subscriber was down. Then new messages are better probes than failed ones."""
        return self._pace.cautious or not self._circuit.circuit.closed

    @property
    def reads_ahead(self) -> bool:
        """Whether to filter messages before they may be sent: only while the circuit is closed."""
        return self._circuit.circuit.closed

    @property
    def next_probe(self) -> float | None:
        """When the next message may be tried; None if the circuit and the pace allow more."""
        circuit = self._circuit.circuit
        return self._pace.next_probe if circuit.closed else circuit.opens_at

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may be sent; 0.0 if one may be sent now."""
        trial = not self._circuit.circuit.closed
        # Check the circuit last. The check of a circuit may request a permission to send a probe,
        # so the caller must be ready to send.
        return self._pace.wait(now, trial=trial) or self._circuit.wait(now)

    def sent(self, now: float) -> int:
        """Count a request that is sent. Return the number for its `EndedRequest.epoch`."""
        self._circuit.sent(now, by=self._by)
        return self._pace.sent(now)

    def learn(self, ended: EndedRequest, now: float) -> bool:
        """Learn from an ended request; return whether more or fewer requests may now be sent."""
        decided = self._pace.learn(ended, now)
        sent_at = now - ended.seconds
        self._circuit.report(ended.outcome, self._rule, sent_at=sent_at, now=now, by=self._by)
        return decided

    def output(self, now: float) -> Output:
        """Return how much may be sent now, and what limits it."""
        output, circuit = self._pace.output(now), self._circuit.reading(now)
        rate = 0.0 if circuit.state is CircuitState.OPEN else output.rate
        return replace(output, rate=rate, circuit=circuit)

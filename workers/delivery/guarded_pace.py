"""A pace that also asks a circuit: nothing leaves while it is open, and one message half open."""

from dataclasses import replace

from app.domain.circuit import CircuitBreaker, CircuitState
from app.domain.status import Output
from workers.delivery.circuits import LiveCircuit
from workers.delivery.pace import EndedRequest, Pace


class GuardedPace:
    """As its `pace`, as far as the `circuit` lets it; `by` is the sending subscription.

    The one message of a half-open circuit does not wait for the gaps that the adaptive rate leaves
    between messages to a subscriber that is down: the circuit decides when it is time.
    """

    def __init__(self, pace: Pace, circuit: LiveCircuit, *, rule: CircuitBreaker, by: str) -> None:
        self._pace = pace
        self._circuit = circuit
        self._rule = rule
        self._by = by

    @property
    def cautious(self) -> bool:
        """Whether the subscriber was down: new messages show more than those that failed."""
        return self._pace.cautious or not self._circuit.circuit.closed

    @property
    def reads_ahead(self) -> bool:
        """Not while the circuit is open."""
        return self._circuit.circuit.closed

    def wait(self, now: float) -> float:
        """Seconds until the next request may leave; 0.0 when it may now."""
        trial = not self._circuit.circuit.closed
        # The circuit last: a call of it is ready to send.
        return self._pace.wait(now, trial=trial) or self._circuit.wait(now)

    def sent(self, now: float) -> int:
        """Count a request that leaves; returns its epoch, for `learn`."""
        self._circuit.sent(now, by=self._by)
        return self._pace.sent(now)

    def learn(self, ended: EndedRequest, now: float) -> bool:
        """Learn from a request that is over; whether it was decided anew on the next ones."""
        decided = self._pace.learn(ended, now)
        sent_at = now - ended.seconds
        self._circuit.report(ended.outcome, self._rule, sent_at=sent_at, now=now, by=self._by)
        return decided

    def output(self, now: float) -> Output:
        """What leaves at most, and why."""
        output, circuit = self._pace.output(now), self._circuit.reading(now)
        rate = 0.0 if circuit.state is CircuitState.OPEN else output.rate
        return replace(output, rate=rate, circuit=circuit)

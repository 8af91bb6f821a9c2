"""The effect of a circuit breaker on the messages of one subscription."""

import time
from collections.abc import Callable, Collection
from datetime import timedelta

from app.domain.catalogue.subscription import Subscription
from app.domain.circuit import CircuitBreaker, CircuitState
from workers.consumer.commit.cursor import Cursor
from workers.consumer.schedule.delivery_job import DeliveryJob, Failing
from workers.consumer.schedule.ttl_clock import TtlClock
from workers.consumer.source.order import Opened
from workers.delivery.batch import MessageBatch
from workers.delivery.circuit import Circuit
from workers.delivery.circuits import Circuits, LiveCircuit
from workers.delivery.guarded_pace import GuardedPace
from workers.delivery.pace import Pace, Pacing


class Breaker:
    """Lets a consumer send what its circuit allows. Messages age only while the circuit is closed.

    While the circuit is not closed, two kinds of clocks are paused: the consumer's clock, which
    gives the age of its messages, and the clocks of `cursors`, whose times are part of commits.
    `wake` is called when more may be sent. `has_new` tells whether a message without an attempt
    could probably be sent now.
    """

    def __init__(
        self,
        circuits: Circuits,
        cursors: Collection[Cursor],
        wake: Callable[[], object],
        *,
        has_new: Callable[[], bool],
    ) -> None:
        self.clock = TtlClock()
        self.has_new = has_new
        self._circuits = circuits
        self._cursors = cursors
        self._wake = wake
        self._rule: CircuitBreaker | None = None
        self._by = ""
        self._circuit: LiveCircuit | None = None

    def guarded(self, pace: Pace, subscription: Subscription) -> Pacing:
        """Return `pace` limited by the circuit breaker, or `pace` if the subscription has none."""
        before, rule = self._rule, subscription.circuit_breaker
        self._by = subscription.group
        name = rule and (rule.circuit_name or "")
        if self._circuit is not None and self._circuit.name != name:
            self._part()
        if rule is None:
            self._rule = None
            self._resume()
            return pace
        if self._circuit is None:
            self._circuit = self._circuits.join(rule.circuit_name or "", self, by=self._by)
        elif before is not None and before.open_for != rule.open_for:
            self._circuit.retime(rule)
        # Set the rule of the circuit breaker last. If an error is raised before this line, the rule
        # is applied again later.
        self._rule = rule
        self.on_change(self._circuit.circuit)
        return GuardedPace(pace, self._circuit, rule=rule, by=subscription.group)

    def rest(self) -> None:
        """Send nothing until `guarded` is called again.

        If the circuit belongs to this subscription alone, keep its state.
        """
        if self._circuit is not None and self._circuit.name:
            self._part()

    def on_change(self, circuit: Circuit) -> None:
        """Called when the circuit opened or closed, or when a probe may be sent."""
        now = time.monotonic()
        if circuit.closed:
            self._resume()
        else:
            self._pause(now, until=circuit.opens_at)
        self._wake()

    def is_open(self, now: float) -> bool:
        """Whether it is too early for a probe, which is a message that tests the subscriber."""
        circuit = self._circuit
        return circuit is not None and circuit.circuit.state(now) is CircuitState.OPEN

    def opened_ms(self, opened: Opened, now_ms: int, *, batch_time: timedelta) -> int:
        """Return the start of a message's time to live (epoch ms), as if there had been no pause.

        The result is the present time minus the time for which the time to live has run. For a
        batch, the time `batch_time` in which it may be collected does not count.
        """
        ran_ms = opened.cursor.ran_ms(opened.message, now_ms)
        if ran_ms is None:
            return opened.opened_ms
        if isinstance(opened.message, MessageBatch):
            ran_ms = max(0, ran_ms - batch_time // timedelta(milliseconds=1))
        return now_ms - ran_ms

    def failed(self, job: DeliveryJob, now: float) -> None:
        """Called after a failed attempt that the circuit has counted.

        If the message or batch `job` fails while others succeed, its time to live continues while
        the circuit is open. Otherwise such a message could open the circuit again and again, and be
        retried without end.
        """
        failing = job.failing = job.failing or Failing(now)
        circuit = self._circuit
        if self.clock.is_paused and circuit and circuit.circuit.succeeded_at > failing.since:
            failing.paused_for = self.clock.paused_for(now)

    def tried_again(self, job: DeliveryJob, now: float) -> None:
        """Called when another attempt of the message or batch `job` begins.

        From then on, the time to live of `job` is paused whenever those of other messages are
        paused.
        """
        failing = job.failing
        if failing is not None and failing.paused_for is not None:
            job.deadline -= self.clock.paused_for(now) - failing.paused_for
            failing.paused_for = None

    def age(self, job: DeliveryJob, at: float) -> float:
        """Return the value of the clock for times to live at the monotonic time `at`.

        The time to live of `job` has ended if the value is above `job.deadline`.
        """
        if job.failing is not None and job.failing.paused_for is not None:
            return at - job.failing.paused_for
        return self.clock.at(at, time.monotonic())

    def opened(self, cursor: Cursor) -> None:
        """Pause the times to live of a new cursor of the consumer, if the clock is paused."""
        if self.clock.is_paused:
            cursor.pause_ttls()

    def _part(self) -> None:
        if self._circuit is not None:
            self._circuits.leave(self._circuit, self, by=self._by)
            self._circuit = None

    def _pause(self, now: float, *, until: float) -> None:
        was_paused = self.clock.is_paused
        self.clock.pause(now, until=until)
        if not was_paused:
            for cursor in self._cursors:
                cursor.pause_ttls()

    def _resume(self) -> None:
        if self.clock.is_paused:
            self.clock.resume(time.monotonic())
            for cursor in self._cursors:
                cursor.resume_ttls()

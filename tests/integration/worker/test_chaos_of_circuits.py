"""Random lives of workers whose subscription has a circuit breaker, which comes and goes, too."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.catalogue.subscription import Ordering
from app.domain.circuit import CircuitBreaker, TimeUnit
from tests.integration.worker.random_lives import Lives, Mood, Witness
from tests.integration.worker.test_chaos import Moody

TRIP_S = 0.1
QUICK = CircuitBreaker(
    errors_threshold=2, trip_timeout=100, trip_timeout_unit=TimeUnit.MILLISECONDS
)
BREAKERS = (None, QUICK, replace(QUICK, circuit_name="a"), replace(QUICK, circuit_name="b"))


def after(seconds: float) -> Callable[[], bool]:
    """Whether so many seconds are over since now."""
    over = time.monotonic() + seconds
    return lambda: time.monotonic() > over


class LivesOfCircuits(Lives):
    """A subscription that begins with a circuit shared by name."""

    def __init__(self, witness: Witness, endpoints: Mood, dice: random.Random) -> None:
        super().__init__(witness, endpoints)
        self._dice = dice

    async def begin(self) -> None:
        await super().begin()
        ordering = self._dice.choice(list(Ordering))
        self._change(ordering=ordering, circuit_breaker=BREAKERS[2])

    async def act(self, action: str) -> None:
        match action:
            case "rewire":
                self._change(circuit_breaker=self._dice.choice(BREAKERS))
            case "wait":
                # Circuits open and are tried meanwhile.
                await self.world.plane.until(after(TRIP_S))
            case _:
                await super().act(action)

    def _change(self, **changed: object) -> None:
        changed_to = replace(self.subscription, **changed)  # type: ignore[arg-type]  # as given
        self.subscription = self.world.plane.put(changed_to)


ACTIONS = st.lists(
    st.sampled_from(["publish", "wait", "join", "crash", "stop", "toggle", "rewire", "wait"]),
    min_size=3,
    max_size=10,
)


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(actions=ACTIONS, seed=st.integers(0, 2**16))
def test_no_circuit_loses_a_message_repeats_a_committed_one_or_stays_open(
    actions: list[str], seed: int
) -> None:
    witness, dice = Witness(), random.Random(seed)
    lives = LivesOfCircuits(witness, Moody(witness, dice), dice)
    asyncio.run(lives.live(actions))

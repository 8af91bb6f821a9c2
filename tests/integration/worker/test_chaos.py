"""Random lives of workers: nothing is lost, and nothing that is committed is sent again."""

import asyncio
import random
from functools import partial

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.catalogue.subscription import Subscription
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.message import Message
from tests.fakes.in_flight import InFlightRequest
from tests.integration.worker.random_lives import Lives, Witness
from workers.delivery.in_flight import ResponseListener


class Moody:
    """Endpoints that fail, are late and discard by dice, until they are `calm`."""

    def __init__(self, witness: Witness, dice: random.Random) -> None:
        self._witness = witness
        self._dice = dice
        self.calm = False

    def destination(self, subscription: Subscription) -> "Moody":
        del subscription
        return self

    def begin(
        self, message: Message, retry_count: int, listener: ResponseListener
    ) -> InFlightRequest | None:
        if self._dice.random() < 0.5:
            return None  # it takes some waiting
        return InFlightRequest(partial(self.attempt, message, retry_count=retry_count), listener)

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        del retry_count
        place = (message.partition, message.offset)
        self._witness.attempted(place)
        for _ in range(self._dice.randrange(4)):
            await asyncio.sleep(0)
        outcome = self._outcome()
        if isinstance(outcome, Delivered):
            self._witness.done.add(place)
        return outcome

    def _outcome(self) -> Outcome:
        mood = 1.0 if self.calm else self._dice.random()
        if mood < 0.3:
            return Retry(reason="not in the mood", status=500)
        return Discarded(reason="never", status=400) if mood < 0.4 else Delivered(status=200)


ACTIONS = st.lists(
    st.sampled_from(["publish", "publish", "join", "crash", "stop", "toggle", "wait"]),
    min_size=3,
    max_size=10,
)


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(actions=ACTIONS, seed=st.integers(0, 2**16))
def test_no_life_of_workers_loses_a_message_or_repeats_a_committed_one(
    actions: list[str], seed: int
) -> None:
    witness = Witness()
    lives = Lives(witness, Moody(witness, random.Random(seed)))
    asyncio.run(lives.live(actions))

"""Random lives of workers that deliver in batches, while sizes and kinds of delivery change."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.catalogue.batching import BatchFormat, DeliveryType
from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.subscription import Subscription
from app.domain.delivery import Delivered, Discarded, Outcome, Retry
from app.domain.message import Message, NewRecord, Partition
from tests.fakes.in_flight import InFlightRequest
from tests.integration.worker.random_lives import Lives, Witness
from workers.delivery.batch import MessageBatch
from workers.delivery.in_flight import ResponseListener

WANTED = (Filter(type=FilterType.JSONPATH, path="$", matcher="[0-9]*[024579]"),)
MILLISECOND = timedelta(milliseconds=1)
SIZES: tuple[Mapping[str, Any], ...] = (
    {"batch_size": 1},
    {"batch_size": 3, "batch_time": 5 * MILLISECOND},
    {"batch_size": 100, "batch_time": MILLISECOND},
    {"batch_size": 100, "batch_volume": 12, "batch_time": 20 * MILLISECOND},
)
KINDS = (*SIZES, {"delivery_type": DeliveryType.SERIAL}, {"batch_volume": 4})


def is_wanted(body: bytes) -> bool:
    return body[-1:] in b"024579"


@dataclass
class BatchWitness(Witness):
    """Sees also what is in flight, and what was not asked for."""

    in_flight: Counter[Partition] = field(default_factory=Counter)
    # Messages of a partition are done in their order, as far as they are wanted.
    in_order: bool = False

    def leaves(self, messages: Sequence[Message], *, alone: bool) -> None:
        of_each: dict[Partition, list[Message]] = {}
        for message in messages:
            of_each.setdefault(message.partition, []).append(message)
        for partition, some in of_each.items():
            self._leave(partition, some, alone=alone)

    def _leave(self, partition: Partition, messages: Sequence[Message], *, alone: bool) -> None:
        offsets = [message.offset for message in messages]
        if offsets != sorted(set(offsets)):
            self.wrong.append(f"{offsets} of {partition} are not in order")
        if alone and self.in_flight[partition]:
            self.wrong.append(f"{offsets} of {partition} left while others were in flight")
        for message in messages:
            self.attempted((partition, message.offset))
            if not is_wanted(message.body or b""):
                self.wrong.append(f"{message.body!r} was sent although it is filtered out")
        early = {(partition, offset) for offset in range(offsets[0])} - self.done
        if self.in_order and early:
            self.wrong.append(f"{offsets} of {partition} left before {early}")


class MoodyBatches:
    """Takes batches and single messages, with moods, until it is `calm`."""

    def __init__(self, witness: BatchWitness, dice: random.Random) -> None:
        self._witness = witness
        self._dice = dice
        self.calm = False

    def destination(self, subscription: Subscription) -> "MoodyBatches":
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
        witness, batched = self._witness, isinstance(message, MessageBatch)
        messages = message.messages if isinstance(message, MessageBatch) else [message]
        witness.leaves(messages, alone=batched)
        partitions = {each.partition for each in messages}
        witness.in_flight.update(partitions)
        try:
            for _ in range(self._dice.randrange(6)):
                await asyncio.sleep(0)
        finally:
            witness.in_flight.subtract(partitions)
        outcome = self._outcome()
        if isinstance(outcome, Delivered):
            witness.done.update((each.partition, each.offset) for each in messages)
        return outcome

    def _outcome(self) -> Outcome:
        mood = 1.0 if self.calm else self._dice.random()
        if mood < 0.3:
            return Retry(reason="not in the mood", status=500)
        return Discarded(reason="never", status=400) if mood < 0.4 else Delivered(status=200)


class BatchLives(Lives):
    """Lives in which a subscription changes how it gets its messages."""

    def __init__(self, seed: int, kinds: Sequence[Mapping[str, Any]], *, in_order: bool) -> None:
        self._dice = random.Random(seed)
        self._kinds = kinds
        self._seen = BatchWitness(in_order=in_order)
        super().__init__(self._seen, MoodyBatches(self._seen, self._dice))

    async def begin(self) -> None:
        await super().begin()
        self._change(delivery_type=DeliveryType.BATCH, filters=WANTED)
        self._change(batch_format=BatchFormat.PLAIN, **SIZES[1])

    async def act(self, action: str) -> None:
        if action == "change":
            kind: dict[str, Any] = {"delivery_type": DeliveryType.BATCH}
            self._change(**(kind | dict(self._dice.choice(self._kinds))))
        else:
            await super().act(action)

    async def publish(self, numbers: Sequence[int]) -> None:
        bodies = [b"%d" % number for number in numbers]
        records = [NewRecord(value=body) for body in bodies]
        positions = await self.log.append(self.topic.name, records)
        for position, body in zip(positions, bodies, strict=True):
            if not is_wanted(body):
                self._seen.done.add((position.partition, position.offset))

    async def end(self) -> None:
        self._change(batch_time=MILLISECOND)
        await super().end()

    def _change(self, **settings: Any) -> None:  # noqa: ANN401 - any settings
        policy = {name: value for name, value in settings.items() if name in POLICY}
        own = {name: value for name, value in settings.items() if name not in POLICY}
        changed = replace(self.subscription.policy, **policy)
        self.subscription = self.world.plane.put(replace(self.subscription, policy=changed, **own))


POLICY = {"batch_size", "batch_volume", "batch_time"}
ACTIONS = st.lists(
    st.sampled_from(["publish", "publish", "join", "crash", "stop", "toggle", "change", "wait"]),
    min_size=3,
    max_size=12,
)
LIVES = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@LIVES
@given(actions=ACTIONS, seed=st.integers(0, 2**16))
def test_batches_lose_nothing_and_stay_in_order_whatever_fails(
    actions: list[str], seed: int
) -> None:
    asyncio.run(BatchLives(seed, SIZES, in_order=True).live(actions))


@LIVES
@given(actions=ACTIONS, seed=st.integers(0, 2**16))
def test_nothing_is_lost_or_repeated_when_batches_are_wanted_and_not_wanted_by_turns(
    actions: list[str], seed: int
) -> None:
    asyncio.run(BatchLives(seed, KINDS, in_order=False).live(actions))

"""What a circuit that is not closed means to a rate that workers share."""

from dataclasses import replace
from datetime import timedelta
from itertools import count

from app.domain.catalogue.topic import Topic
from app.domain.circuit import CircuitBreaker, CircuitState
from app.domain.delivery import Delivered, Outcome, Retry
from tests.fakes.worker import Attempt, World


async def a_key_of_each(world: World, topic: Topic) -> list[bytes]:
    """A key that leads to each partition."""
    partitions = await world.log.partitions(topic.name)
    keys: dict[int, bytes] = {}
    for number in count():
        key = b"%d" % number
        before = await world.log.bounds(partitions)
        await world.publish(topic, b"0", key=key)
        after = await world.log.bounds(partitions)
        keys |= {p.index: key for p in partitions if after[p].end > before[p].end}
        if len(keys) == len(partitions):
            break
    return list(keys.values())


async def test_who_has_lent_its_rate_while_its_circuit_was_open_gets_enough_back_to_try() -> None:
    world = World()
    topic = await world.topic(partitions=2)
    calm, failing = await a_key_of_each(world, topic)
    up = False

    def reply(attempt: Attempt) -> Outcome:
        down = attempt.body == b"failing" and not up
        return Retry(reason="no", status=503) if down else Delivered(status=200)

    breaker = CircuitBreaker(errors_threshold=1, trip_timeout=4)
    made = await world.subscribe(topic, rate=20, in_flight_max=1, message_backoff=timedelta(0))
    subscription = world.plane.put(replace(made, circuit_breaker=breaker))
    world.endpoints.replies[made.endpoint] = reply

    def is_open() -> bool:
        load = world.plane.loads.get(subscription.id)
        circuit = load.output.circuit if load else None
        return circuit is not None and circuit.state is CircuitState.OPEN

    async with world.worker("w1"), world.worker("w2"):
        await world.plane.until(lambda: len(world.plane.beats) == 2)
        await world.plane.until_applied()
        await world.publish(topic, b"failing", key=failing)
        await world.plane.until(is_open)
        up, tried = True, world.endpoints.bodies().count(b"failing")
        await world.publish(topic, *[b"calm"] * 1_000, key=calm)
        await world.endpoints.until(lambda: world.endpoints.bodies().count(b"failing") > tried)

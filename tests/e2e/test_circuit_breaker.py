"""A circuit that subscriptions share, through the whole service with two workers."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from tests.e2e.service import eventually, running
from tests.fakes.subscriber import Reply, Subscriber

TOPIC = "circuits.orders"
BREAKER = {
    "errorTypes": ["HTTP_503"],
    "errorsThreshold": 3,
    "tripTimeout": 1,
    "circuitName": "invoices",
}


async def test_what_fails_for_one_subscription_stops_all_that_share_its_circuit(
    on_embedded_log: Mapping[str, str], logs: Path
) -> None:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(on_embedded_log, logs, workers=2))
        await service.topic(TOPIC, partitions=4)
        receiver = await stack.enter_async_context(Subscriber(Reply(status=503)))
        paths = [
            await service.subscribe(TOPIC, name, receiver.url, inflightSize=2, messageBackoff=0)
            for name in ("billing", "shipping")
        ]
        for path in paths:
            changed = await service.http.patch(path, json={"circuitBreaker": BREAKER})
            assert changed.raise_for_status().json()["circuitBreaker"]["errorsThreshold"] == 3

        reasons: list[str] = []

        async def is_open() -> bool:
            metrics = [await service.metrics(path) for path in paths]
            reasons[:] = [each.get("circuitReason", "") for each in metrics]
            return all(
                each.get("circuit") in {"OPEN", "HALF_OPEN"} and "nextProbeAt" in each
                for each in metrics
            )

        for number in range(40):
            await service.publish(TOPIC, b"%d" % number, **{"Partition-Key": f"{number}"})
        await eventually(is_open)
        assert "status code:503" in reasons[0]
        before = len(receiver.received)
        # Several trips, in which one message tries for both of them, on one of two workers.
        await receiver.wait_until(lambda: len(receiver.received) >= before + 4)
        receiver.reply = Reply()
        for path in paths:
            figures = await service.accounted(path, 40)
            assert (figures["delivered"], figures["discarded"]) == (40, 0)

"""Settings of topics and subscriptions, through the whole service."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from tests.e2e.service import eventually, running
from tests.fakes.subscriber import Received, Reply, Subscriber

TOPIC = "settings.orders"


def fails_in_words(received: Received) -> Reply:
    return Reply(body=b"error" if received.retry_count == 0 else b"fine")


async def test_what_is_set_reaches_the_subscriber(
    on_embedded_log: Mapping[str, str], logs: Path
) -> None:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(on_embedded_log, logs))
        await service.topic(TOPIC, partitions=1, propagatedHeaders=["X-Tenant"])
        receiver = await stack.enter_async_context(Subscriber(fails_in_words))
        path = await service.subscribe(TOPIC, "billing", receiver.url, firstRetryImmediate=True)
        settings = {
            "headers": [{"name": "X-Key", "value": "k"}],
            "subscriptionIdentityHeadersEnabled": True,
            "failureExpression": "body == 'error'",
            "contentMode": "CE_BINARY",
            "fetch": {"mode": "POLLING", "pollSize": 1, "pollingTime": 100},
        }

        async def applied() -> bool:
            changed = await service.http.patch(path, json=settings)
            return bool(changed.raise_for_status().headers["Angelia-Applied"] == "true")

        await eventually(applied)  # by a worker that may still be starting
        await service.publish(TOPIC, b"{}", **{"X-Tenant": "acme"})
        assert (await service.accounted(path, 1))["delivered"] == 1
        first, second = receiver.received
    assert (first.retry_count, second.retry_count) == (0, 1)
    sent = {"x-key": "k", "x-tenant": "acme", "hermes-topic-name": TOPIC, "ce-type": TOPIC}
    assert sent.items() <= first.headers.items()
    assert first.headers["hermes-subscription-name"] == "billing"


async def test_an_endpoint_that_is_gone_suspends_its_subscription(
    on_embedded_log: Mapping[str, str], logs: Path
) -> None:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(on_embedded_log, logs))
        await service.topic(TOPIC, partitions=1)
        receiver = await stack.enter_async_context(Subscriber(Reply(status=410)))
        path = await service.subscribe(TOPIC, "billing", receiver.url, inflightSize=1)
        for number in range(3):
            await service.publish(TOPIC, b"%d" % number)

        async def suspended() -> bool:
            return bool((await service.http.get(path)).json()["state"] == "SUSPENDED")

        await eventually(suspended)
        read = (await service.http.get(path)).json()
        assert read["stateReason"] == "The endpoint answered 410 Gone"
        (discarded,) = await service.undelivered(path, 1)
        assert discarded["message"] == "0"
        await service.set_state(path, "ACTIVE")
        await eventually(suspended)
    assert [received.body for received in receiver.received] == [b"0", b"1"]

"""Test messages through the whole service."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from tests.e2e.service import eventually, running
from tests.fakes.subscriber import Reply, Subscriber

TOPIC = "pings.orders"


async def test_a_worker_pings_an_endpoint_and_its_owner_reads_how_it_answered(
    on_embedded_log: Mapping[str, str], logs: Path
) -> None:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(on_embedded_log, logs, workers=1))
        await service.topic(TOPIC)
        receiver = await stack.enter_async_context(Subscriber(Reply(headers={"Server": "me"})))
        path = await service.subscribe(TOPIC, "billing", receiver.url)
        # Suspended ones, too: before they are resumed it is good to know.
        (await service.http.put(f"{path}/state", json="SUSPENDED")).raise_for_status()
        answers: list[httpx.Response] = []

        async def pinged() -> bool:
            answers.append(await service.http.post(f"{path}/ping"))
            return answers[-1].is_success

        await eventually(pinged)
        told = answers[-1].json()
        assert (told["delivered"], told["status"]) == (True, 200)
        assert {"name": "Server", "value": "me"} in told["headers"]
        assert told["address"] == f"127.0.0.1:{receiver.port}"
        assert told["protocol"] == "HTTP/1.1"
        assert told["latencyMs"] > 0
        assert told["messageId"] in receiver.message_ids

        async def too_soon() -> bool:
            # At the latest the second one, unless the service stands still between them.
            answers.append(await service.http.post(f"{path}/ping"))
            return answers[-1].status_code == httpx.codes.TOO_MANY_REQUESTS

        await eventually(too_soon)
        assert answers[-1].json()["code"] == "PING_TOO_SOON"
        assert answers[-1].headers["retry-after"] == "1"
        receiver.reply = Reply(status=503)

        async def refused() -> bool:
            again = await service.http.post(f"{path}/ping")
            return again.is_success and again.json()["status"] == 503

        await eventually(refused)
        figures = await service.metrics(path)
        assert (figures["delivered"], figures["discarded"]) == (0, 0)
        missing = await service.http.post(f"/topics/{TOPIC}/subscriptions/none/ping")
        assert (missing.status_code, missing.json()["code"]) == (400, "SUBSCRIPTION_NOT_EXISTS")


async def test_without_a_worker_nobody_can_ping(
    on_embedded_log: Mapping[str, str], logs: Path
) -> None:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(on_embedded_log, logs, workers=0))
        await service.topic(TOPIC)
        path = await service.subscribe(TOPIC, "billing", "http://127.0.0.1:9/")
        refused = await service.http.post(f"{path}/ping")
        assert (refused.status_code, refused.json()["code"]) == (503, "NO_WORKER")

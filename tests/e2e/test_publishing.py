"""Batches, events and ids of their publishers, through the whole service on both logs."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import httpx

from tests.e2e.service import PATIENCE_S, Service, eventually, has_all, running
from tests.fakes.subscriber import Subscriber
from tests.servers.service import ONE_LOG

NDJSON = {"Content-Type": "application/x-ndjson"}
IDS = 300


async def test_batches_and_events_arrive_as_they_were_published(
    configuration: Mapping[str, str], logs: Path
) -> None:
    lines = [b'{"n" :  %d, "filler": "%s"}' % (n, b"x" * 900) for n in range(700)]
    event = {"ce-specversion": "1.0", "ce-id": "e-1", "ce-source": "/s", "ce-type": "t"}
    async with running(configuration, logs) as service, Subscriber() as receiver:
        topic = await service.topic("batches.all")
        await service.subscribe(topic, "s", receiver.url)
        path = f"/topics/{topic}"
        answer = await service.http.post(f"{path}/batch", content=b"\n".join(lines), headers=NDJSON)
        assert (answer.status_code, answer.headers["Angelia-Subscriptions"]) == (201, "1")
        await service.publish(topic, b'"an event"', **event)
        ids = [result["id"] for result in answer.json()]
        await has_all(receiver, [*ids, "e-1"])
    bodies = {received.message_id: received.body for received in receiver.received}
    assert [bodies[own_id] for own_id in ids] == lines
    carrier, *_ = (each for each in receiver.received if each.message_id == "e-1")
    assert {name: carrier.headers[name] for name in event} == event


@ONE_LOG
async def test_ids_survive_an_api_that_is_killed_while_it_publishes(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with running(configuration, logs) as service, Subscriber() as receiver:
        topic = await service.topic("once.all", deduplication={})
        await service.subscribe(topic, "s", receiver.url)
        answered = asyncio.Event()
        counted: Counter[str] = Counter()

        async def publisher(ids: list[str]) -> None:
            for own_id in ids:
                counted[own_id] = await until_stored(service, topic, own_id)
                if counted.total() > IDS // 3:
                    answered.set()

        ids = [f"id-{n}" for n in range(IDS)]
        async with asyncio.timeout(PATIENCE_S * 2), asyncio.TaskGroup() as publishers:
            for n in range(8):
                publishers.create_task(publisher(ids[n::8]))
            await answered.wait()
            await service.processes[0].kill()
            await service.api()
        again = [await published(service, topic, own_id) for own_id in ids]
        assert {each.headers.get("Angelia-Duplicate") for each in again} == {"true"}
        await receiver.wait_until(lambda: set(receiver.message_ids) >= set(ids), PATIENCE_S)
    # Only what was asked for twice, because no good answer came, may be there twice.
    service.doubtful |= {own_id for own_id in ids if counted[own_id] > 1}
    service.assert_once(receiver.message_ids, ids)


async def until_stored(service: Service, topic: str, own_id: str) -> int:
    """Publish until it is acknowledged; how often it was heard, and may have been stored."""
    attempts = 0

    async def is_stored() -> bool:
        nonlocal attempts
        attempts += 1
        try:
            return (await published(service, topic, own_id)).status_code == httpx.codes.CREATED
        except httpx.ConnectError:
            attempts -= 1
            return False
        except httpx.TransportError:
            return False

    await eventually(is_stored)
    return attempts


async def published(service: Service, topic: str, own_id: str) -> httpx.Response:
    headers = {"Idempotency-Key": own_id}
    return await service.http.post(f"/topics/{topic}", content=f'"{own_id}"', headers=headers)

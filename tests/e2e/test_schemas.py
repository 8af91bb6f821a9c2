"""Avro through the whole service, on both logs: new versions, a worker killed, a redrive."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.e2e.service import Service, created, eventually, has_all, running
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.servers.service import ONE_LOG

FIRST = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
SECOND = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "n", "type": "int"}, {"name": "note", "type": "string", "default": "-"}],
}
MESSAGES = 100
JSON = {"Content-Type": "application/json"}


async def as_avro(service: Service, subscription: str) -> None:
    (await service.http.put(subscription, json={"contentType": "AVRO"})).raise_for_status()
    await service.applied(subscription)


@ONE_LOG
async def test_every_message_arrives_in_its_version_while_the_schema_changes_and_a_worker_dies(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with (
        running(configuration, logs) as service,
        Subscriber() as plain,
        Subscriber() as raw,
    ):
        schema = json.dumps(FIRST)
        topic = await service.topic("avro.all", contentType="AVRO", schema=schema, partitions=2)
        await service.subscribe(topic, "plain", plain.url)
        await as_avro(service, await service.subscribe(topic, "raw", raw.url))
        for number in range(MESSAGES):
            await service.publish(topic, b'{"n": %d}' % number, **JSON)
        created(await service.http.post(f"/topics/{topic}/schema", json=SECOND))
        await service.processes[-1].kill()
        for number in range(MESSAGES, 2 * MESSAGES):
            await service.publish(topic, b'{"n": %d}' % number, **JSON)
        await service.worker()
        await plain.wait_until(lambda: len(set(plain.message_ids)) == 2 * MESSAGES, 60)
        await raw.wait_until(lambda: len(set(raw.message_ids)) == 2 * MESSAGES, 60)
    seen = {json.loads(each.body)["n"]: each.body for each in plain.received}
    assert seen[0] == b'{"n":0}'
    assert seen[2 * MESSAGES - 1] == b'{"n":199,"note":"-"}'
    assert len(seen) == 2 * MESSAGES
    versions = {each.headers["schema-version"] for each in raw.received}
    assert versions == {"1", "2"}
    assert {each.headers["content-type"] for each in raw.received} == {"avro/binary"}


@ONE_LOG
async def test_a_discarded_message_is_sent_again_as_avro(
    configuration: Mapping[str, str], logs: Path
) -> None:
    def refuse_the_first(received: Received) -> Reply:
        return Reply(status=200 if "hermes-retransmission" in received.headers else 400)

    async with running(configuration, logs) as service, Subscriber(refuse_the_first) as receiver:
        topic = await service.topic("avro.again", contentType="AVRO", schema=json.dumps(FIRST))
        path = await service.subscribe(topic, "raw", receiver.url)
        await as_avro(service, path)
        await service.publish(topic, b'{"n": 7}', **JSON)
        (discarded,) = await service.undelivered(path, 1)
        assert json.loads(discarded["message"]) == {"n": 7}
        asked = {"only": "discarded"}
        (await service.http.post(f"{path}/retransmission", json=asked)).raise_for_status()
        first, again = await receiver.wait_for(2)
    assert first.body == again.body == b"\x0e"
    assert again.headers["schema-version"] == "1"


MIGRATION = {"contentType": "AVRO", "migratedFromJsonType": True, "schema": json.dumps(FIRST)}


@ONE_LOG
async def test_a_topic_becomes_avro_while_it_is_published_to_and_delivered(
    configuration: Mapping[str, str], logs: Path
) -> None:
    def refuse_the_first(received: Received) -> Reply:
        return Reply(status=200 if "hermes-retransmission" in received.headers else 400)

    async with (
        running(configuration, logs) as service,
        Subscriber() as plain,
        Subscriber() as batches,
        Subscriber(refuse_the_first) as refusing,
    ):
        topic = await service.topic("json.avro", partitions=2, trackingEnabled=True)
        path = await service.subscribe(topic, "plain", plain.url)
        (await service.http.patch(path, json={"trackingMode": "trackingAll"})).raise_for_status()
        odd = [{"type": "jsonpath", "path": "$.n", "matcher": "[0-9]*[13579]"}]
        chosen = await service.subscribe(topic, "odd", refusing.url)
        (await service.http.put(chosen, json={"filters": odd})).raise_for_status()
        await service.applied(chosen)
        batched = {"name": "batches", "endpoint": batches.url, "deliveryType": "BATCH"}
        # A test process that is busy for a second must not look like a subscriber that hangs.
        policy = {"batchSize": 10, "batchTime": 200, "requestTimeout": 20_000}
        made = batched | {"supportTeam": "tests", "subscriptionPolicy": policy}
        created(await service.http.post(f"/topics/{topic}/subscriptions", json=made))
        bodies = {}
        for number in range(MESSAGES):
            if number == MESSAGES // 2:
                (await service.http.put(f"/topics/{topic}", json=MIGRATION)).raise_for_status()
            body = b'{"n": %d}' % number
            bodies[await service.publish(topic, body, **JSON)] = body
            if number == 0:
                # From now on the worker is at work.
                await plain.wait_for(1)
        await has_all(plain, bodies)
        await batches.wait_until(lambda: len(set(in_batches(batches))) == MESSAGES, 60)
        listed = await service.undelivered(chosen, MESSAGES // 2)
        answer = await service.http.post(f"{chosen}/retransmission", json={"only": "discarded"})
        answer.raise_for_status()
        await refusing.wait_until(lambda: len(refusing.received) >= MESSAGES, 60)
        first, last = next(iter(bodies)), next(reversed(bodies))
        for each in (first, last):
            await eventually(partial(is_traced, service, path, each))
        moved = {"retransmissionDate": "-1h"}
        (await service.http.put(f"{path}/retransmission", json=moved)).raise_for_status()
        await plain.wait_until(lambda: len(plain.received) >= 2 * MESSAGES, 60)
    expected = [
        body if number < MESSAGES // 2 else body.replace(b" ", b"")
        for number, body in enumerate(bodies.values())
    ]
    assert sorted(each.body for each in plain.received) == sorted(2 * expected)
    assert sorted(in_batches(batches)) == list(range(MESSAGES))
    assert sorted(each["message"].encode() for each in listed) == sorted(expected[1::2])
    assert sorted(each.body for each in refusing.received) == sorted(2 * expected[1::2])


def in_batches(receiver: Subscriber) -> list[int]:
    """The numbers of all messages that came in batches."""
    return [each["message"]["n"] for batch in receiver.received for each in json.loads(batch.body)]


async def is_traced(service: Service, path: str, message_id: str) -> bool:
    """Whether the trace of the message tells of its publication and its delivery."""
    trace = (await service.http.get(f"{path}/events/{message_id}/trace")).raise_for_status().json()
    return {"SUCCESS"} <= {each["status"] for each in trace} and any(
        "subscription" in each for each in trace
    )

"""Avro through the whole service, on both logs: new versions, a worker killed, a redrive."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.service import Service, created, running
from tests.fakes.subscriber import Received, Reply, Subscriber

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

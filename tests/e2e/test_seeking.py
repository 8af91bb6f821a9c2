"""Moving a subscription through the whole service, on both logs, with its worker killed."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.service import eventually, running
from tests.fakes.subscriber import Subscriber
from tests.servers.service import ONE_LOG

TOPIC = "seeking.orders"
MESSAGES = 200


@ONE_LOG
async def test_all_is_sent_again_once_or_skipped_as_asked(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with running(configuration, logs, workers=0) as service, Subscriber() as receiver:
        worker = await service.worker()
        await service.topic(TOPIC, partitions=4)
        path = await service.subscribe(TOPIC, "s", receiver.url)

        async def moved(to: str) -> None:
            answer = await service.http.put(
                f"{path}/retransmission", json={"retransmissionDate": to}
            )
            answer.raise_for_status()

        bodies = [b"%d" % number for number in range(MESSAGES)]
        published = await service.publish_all(TOPIC, [(body, body.decode()) for body in bodies])
        await service.accounted(path, MESSAGES)
        await moved("-1h")
        await service.accounted(path, 2 * MESSAGES)
        twice = Counter(receiver.message_ids)
        assert twice.keys() == published.keys()
        assert service.stood_still() or set(twice.values()) == {2}
        came = len(receiver.received)

        await service.set_state(path, "SUSPENDED")
        skipped = await service.publish(TOPIC, b'"skipped"')
        await moved("9999-01-01T00:00:00Z")
        await worker.kill()
        await service.worker()
        await service.set_state(path, "ACTIVE")
        wanted = await service.publish(TOPIC, b'"wanted"')

        async def arrived() -> bool:
            return wanted in receiver.message_ids

        await eventually(arrived)
    assert skipped not in receiver.message_ids
    # What was unfinished when the worker was killed came once more; nothing was.
    service.assert_once(receiver.message_ids[came:], [wanted])

"""Discarded messages are sent again once their subscriber is mended, on both logs."""

from collections.abc import Mapping
from pathlib import Path

from tests.e2e.service import has_all, running
from tests.e2e.test_crashes import TOPIC, numbered
from tests.fakes.subscriber import Reply, Subscriber
from tests.servers.service import ONE_LOG_AND_OLD_POSTGRES

COUNT = 40


@ONE_LOG_AND_OLD_POSTGRES
async def test_a_mended_subscriber_gets_what_it_had_refused_and_its_neighbour_nothing(
    configuration: Mapping[str, str], logs: Path
) -> None:
    broken = Reply(status=400)
    async with (
        running(configuration, logs) as service,
        Subscriber(broken) as mended,
        Subscriber() as neighbour,
    ):
        await service.topic(TOPIC, partitions=4)
        path = await service.subscribe(TOPIC, "mended", mended.url)
        beside = await service.subscribe(TOPIC, "neighbour", neighbour.url)
        published = await service.publish_all(TOPIC, numbered(COUNT))
        await service.undelivered(path, COUNT)
        await service.accounted(beside, COUNT)
        mended.reply = Reply()
        mended.received.clear()
        response = await service.http.post(f"{path}/retransmission", json={"only": "discarded"})
        answered = response.raise_for_status().json()
        assert (answered["count"], answered["more"]) == (COUNT, False)
        await has_all(mended, published)
        # Others behind them, in the same partitions, show that the neighbour is past them.
        later = await service.publish_all(TOPIC, numbered(COUNT))
        await has_all(neighbour, [*published, *later])
        counts = await service.accounted(path, 3 * COUNT)
        await service.accounted(beside, 2 * COUNT)
        rows = await service.undelivered(path, COUNT)
    again = [each for each in mended.received if each.message_id not in later]
    assert {each.message_id: each.body for each in again} == published
    service.assert_once((each.message_id for each in again), published)
    assert {each.headers["hermes-retransmission"] for each in again} == {answered["id"]}
    service.assert_once(neighbour.message_ids, [*published, *later])
    assert not any("hermes-retransmission" in each.headers for each in neighbour.received)
    assert (counts["delivered"], counts["discarded"]) == (2 * COUNT, COUNT)
    assert all("redrivenAt" in row for row in rows)

"""Retransmissions of subscriptions that are deleted."""

import httpx
import pytest

from app.storage.database import Database
from app.storage.jobs import JobRepository
from app.storage.retransmission_sending import SendingRepository
from tests.integration.api.test_retransmissions import LEASE, chosen, requested


@pytest.mark.parametrize("whole_topic", [False, True])
async def test_those_of_a_subscription_that_is_deleted_are_cancelled(
    api: httpx.AsyncClient, subscription: str, database: Database, *, whole_topic: bool
) -> None:
    (await api.put(subscription, json={"autoDeleteWithTopicEnabled": True})).raise_for_status()
    sent, failed, read, waiting = [
        (await requested(api, subscription)).rpartition("/")[2] for _ in range(4)
    ]
    assert await chosen(database, 10) == sent
    async with database.transaction() as session:
        jobs = JobRepository(session)
        for each in (failed, read):
            job = await jobs.take("r-1", LEASE)
            assert job is not None
            assert job.id == each
            if each == failed:
                assert await jobs.fail(job.claim, "broken")
    gone = subscription.rpartition("/subscriptions")[0] if whole_topic else subscription
    (await api.delete(gone)).raise_for_status()
    async with database.transaction() as session:
        assert await SendingRepository(session, "w-1").take(LEASE) is None
        assert await JobRepository(session).take("r-1", LEASE) is None
    found = {each["id"]: each for each in (await api.get("/jobs")).json()}
    # The one that is read is stopped by its runner.
    assert found[waiting]["state"] == "CANCELLED"
    assert {each: found[each]["state"] for each in (sent, failed, read)} == {
        sent: "DONE", failed: "FAILED", read: "RUNNING",
    }  # fmt: skip
    events = (await api.get("/audit?kind=retransmission")).json()
    cancelled = [each["after"]["id"] for each in events if each["action"] == "CANCELLED"]
    assert sorted(cancelled) == sorted([sent, read, waiting])


@pytest.mark.parametrize("order", ["evd", "edv", "dev"])
async def test_what_a_cancelled_one_dropped_after_a_second_end_that_is_void_is_listed_again(
    api: httpx.AsyncClient, subscription: str, database: Database, order: str
) -> None:
    path = await requested(api, subscription)
    job_id = await chosen(database, 1)
    async with database.transaction() as session:
        sending = await SendingRepository(session, "w-1").take(LEASE)
        assert sending is not None
        whose = sending.subscription_id
        first = an_undelivered(7, subscription_id=whose)
        await UndeliveredRepository(session).record([first], STREAM, 1)
        await SendingRepository(session, "w-1").record(sending, [Sent(0, 7, 1, 107)])
    await api.delete(path)
    end = replace(first, partition=1, offset=107, life="ab", retransmission=job_id)
    void = Void(subscription_id=whose, partition=1, life="ab", offset=107, finished=())
    for position, step in enumerate(order, start=2):
        # The worker that discarded it is gone, and the next one drops it: known in any order.
        async with database.transaction() as session:
            if step == "d":
                await SendingRepository(session, "w-2").unmark(job_id, [(1, 107)])
            else:
                entry = end if step == "e" else void
                await UndeliveredRepository(session).record([entry], STREAM, position)
    listed = (await api.get(f"{subscription}/undelivered")).json()
    assert [(each["offset"], "redrivenAt" in each) for each in listed] == [(7, False)]
    redrive = {"only": "discarded", "dryRun": True}
    answer = await api.post(f"{subscription}/retransmission", json=redrive)
    assert [each["offset"] for each in answer.json()["messages"]] == [7]

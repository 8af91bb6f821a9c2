"""Retransmissions of subscriptions that are deleted."""

import httpx
import pytest

from app.storage.database import Database
from app.storage.insight.jobs import JobRepository
from app.storage.replay.sending import SendingRepository
from tests.integration.api.replay.test_retransmissions import LEASE, chosen, requested


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

"""Retransmissions beside live traffic: asked for, looked at, cancelled."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, update

from app.api.management.replay.retransmissions_bodies import RetransmitBody
from app.domain.discards.retractions import Retraction
from app.domain.job import JobResult
from app.domain.message import NewRecord, Partition
from app.domain.replay.retransmission import CANCELLED_KEPT, RetransmissionState, Sent
from app.services.pruning import Pruner
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.insight.jobs import JobRepository
from app.storage.insight.spark_runners import SparkRunnerRepository
from app.storage.replay.retransmissions import RetransmissionRepository
from app.storage.replay.sending import SendingRepository
from app.storage.tables import RetransmissionRow, RetransmissionSentRow
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.fields.wrong_values import (
    NO_STRINGS,
    Setting,
    flag,
    lists,
    moments,
    number,
    objects,
    text,
    wrong,
)
from tests.integration.storage.builders import an_undelivered

LEASE = timedelta(minutes=1)
STREAM = Partition("angelia.undelivered", 0)
ALL = {"only": "all", "from": "-6h"}
FILTER = {"type": "jsonpath", "path": "$.a", "matcher": "x"}

BODY: dict[str, Setting] = {
    "only": Setting(wrong=[], required=True),
    "from": Setting(wrong=moments("yesterday", "6h", "")),
    "to": Setting(wrong=moments("tomorrow", "")),
    "offsets": Setting(wrong=[*wrong("at least 1 item", [])]),
    "filter": Setting(wrong=objects()),
    "statusCodes": Setting(wrong=[*lists(100, 400), *wrong("at least 1 item", [])]),
    "statusCodes.0": Setting(wrong=number(100, 599)),
    "messageIds": Setting(wrong=[*lists(1000, "m"), *wrong("at least 1 item", [])]),
    "messageIds.0": Setting(wrong=text(0, 10**4)[:4]),
    "keys": Setting(wrong=[*lists(1000, "k"), *wrong("at least 1 item", [])]),
    "keys.0": Setting(wrong=text(0, 10**4)[:4]),
    "share": Setting(wrong=[*wrong("", 0, 1.01, -1, "1"), *wrong("", *NO_STRINGS[-1:])]),
    "rate": Setting(wrong=wrong("", 0, 0.009, -1, 10**6 + 1, 10**40, "1", *NO_STRINGS[1:])),
    "reason": Setting(wrong=[*wrong("must be a string", *NO_STRINGS), *wrong("zero", "x\0")]),
    "mode": Setting(wrong=wrong("must be 'replay'", "back", "", 1)),
    "dryRun": Setting(wrong=flag()),
}


async def requested(api: httpx.AsyncClient, path: str, **body: Any) -> str:  # noqa: ANN401 - any JSON
    """Ask for one; its path."""
    answer = await api.post(f"{path}/retransmission", json=ALL | body)
    assert answer.status_code == httpx.codes.ACCEPTED, answer.text
    return answer.headers["Location"]


async def chosen(database: Database, messages: int) -> str:
    """The job that waits longest has chosen so many; the id."""
    async with database.transaction() as session:
        job = await JobRepository(session).take("r-1", LEASE)
        assert job is not None
        counts = {"messages": messages, "bytes": 10 * messages}
        assert await JobRepository(session).finish(job.claim, JobResult(counts=counts))
        sample = {"messageId": "m", "partition": 0, "offset": 1, "timestamp": 2, "size": 3}
        await RetransmissionRepository(session).chosen(job.claim, counts, [sample])
    return job.id


async def test_it_says_from_where_to_where_and_leads_to_how_far_it_is(
    api: httpx.AsyncClient, subscription: str, log: MemoryLog
) -> None:
    await log.append("shop.orders", [NewRecord(value=b"%d" % n, key=b"k") for n in range(5)])
    answer = await api.post(f"{subscription}/retransmission", json={**ALL, "share": 1, "rate": 5})
    assert answer.status_code == httpx.codes.ACCEPTED
    spans = sorted((each["offset"], each["toOffset"]) for each in answer.json())
    assert spans == [(0, 0), (0, 5)]
    assert {each["topic"]["value"] for each in answer.json()} == {"shop.orders"}
    seen = (await api.get(answer.headers["Location"])).json()
    assert seen["state"] == "REQUESTED"
    assert "angelia spark" in seen["waitingFor"]
    assert (seen["only"], seen["dryRun"]) == ("all", False)
    assert (seen["share"], seen["rate"]) == (1.0, 5.0)
    assert seen["offsets"] == answer.json()
    assert "etaSeconds" not in seen
    since, until = (datetime.fromisoformat(seen[name]) for name in ("from", "to"))
    assert timedelta(hours=6) <= until - since < timedelta(hours=6, minutes=1)
    [listed] = (await api.get(f"{subscription}/retransmissions")).json()
    assert listed["id"] == seen["id"]
    job = (await api.get(f"/jobs/{seen['id']}")).json()
    assert (job["kind"], job["scope"]["subscription"]) == ("RETRANSMISSION", "billing")


async def test_offsets_are_taken_as_they_are_and_never_beyond_what_there_is(
    api: httpx.AsyncClient, subscription: str, log: MemoryLog
) -> None:
    await log.append("shop.orders", [NewRecord(value=b"%d" % n, key=b"k") for n in range(5)])
    index = next(
        each.index
        for each, bound in (await log.bounds(await log.partitions("shop.orders"))).items()
        if bound.end
    )
    body = {"only": "all", "offsets": [{"partition": index, "offset": 2, "toOffset": 99}]}
    answer = await api.post(f"{subscription}/retransmission", json=body)
    spans = {each["partition"]: (each["offset"], each["toOffset"]) for each in answer.json()}
    assert spans == {index: (2, 5), 1 - index: (0, 0)}
    refused = await api.post(
        f"{subscription}/retransmission",
        json={"only": "all", "offsets": [{"partition": 7, "offset": 2}]},
    )
    assert refused.status_code == httpx.codes.BAD_REQUEST
    assert "no partition 7" in refused.text


async def test_what_is_chosen_is_sent_and_counted(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    path = await requested(api, subscription)
    async with database.transaction() as session:
        await SparkRunnerRepository(session).beat("r-1")
    assert "waitingFor" not in (await api.get(path)).json()
    await chosen(database, 200)
    seen = (await api.get(path)).json()
    assert seen["state"] == "SENDING"
    # At half of the rate of a subscription like this one, which is 100.
    assert seen["etaSeconds"] == 4.0
    async with database.transaction() as session:
        sending = await SendingRepository(session, "w-1").take(LEASE)
        assert sending is not None
        sent = [Sent(0, offset, 1, 100 + offset) for offset in range(3)]
        # A worker that has lost the lease records nothing, so that each message is counted once.
        assert not await SendingRepository(session, "w-2").record(sending, sent)
        assert await SendingRepository(session, "w-1").record(sending, sent)
        assert await SendingRepository(session, "w-1").keep(sending, finished=2, lease=LEASE)
        again = an_undelivered(101, subscription_id=sending.subscription_id, partition=1)
        await UndeliveredRepository(session).record([again], STREAM, 1)
    counts = (await api.get(path)).json()["counts"]
    assert counts == {
        "matched": 200, "bytes": 2_000, "archived": 0, "gone": 0,
        "written": 3, "finished": 2, "delivered": 1, "discarded": 1,
    }  # fmt: skip


async def test_a_dry_run_ends_with_what_it_found(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    path = await requested(api, subscription, dryRun=True)
    await chosen(database, 100)
    seen = (await api.get(path)).json()
    assert (seen["state"], seen["etaSeconds"]) == ("DONE", 2.0)
    assert [each["messageId"] for each in seen["messages"]] == ["m"]


@for_each(("rate", "eta"), [(10, 10.0), (80, 2.0)])
async def test_the_time_left_is_by_the_rate_where_that_is_less_than_the_share(
    api: httpx.AsyncClient, subscription: str, database: Database, *, rate: int, eta: float
) -> None:
    path = await requested(api, subscription, rate=rate)
    await chosen(database, 100)
    assert (await api.get(path)).json()["etaSeconds"] == eta
    async with database.transaction() as session:
        sending = await SendingRepository(session, "w-1").take(LEASE)
    assert sending is not None
    assert (sending.share, sending.rate) == (0.5, rate)
    await api.delete(path)


async def test_one_that_waits_or_is_sent_is_cancelled_and_its_messages_are_dropped(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    waiting = await requested(api, subscription)
    assert (await api.delete(waiting)).json()["state"] == "CANCELLED"
    sending = await requested(api, subscription)
    job_id = await chosen(database, 10)
    async with database.transaction() as session:
        assert await SendingRepository(session, "w-1").take(LEASE)
    for _ in range(2):
        cancelled = await api.delete(sending)
        assert (cancelled.status_code, cancelled.json()["state"]) == (200, "CANCELLED")
    async with database.transaction() as session:
        assert await SendingRepository(session, "w-1").take(LEASE) is None
        stored = await SubscriptionRepository(session).get("shop.orders", "billing")
    assert stored.dropped == (waiting.rpartition("/")[2], job_id)
    assert len(stored.dropped) <= CANCELLED_KEPT
    shown = (await api.get(subscription)).json()
    assert "dropped" not in shown


async def test_what_a_cancelled_one_dropped_may_be_sent_again_and_what_it_sent_may_not(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    redrive = {"only": "discarded", "dryRun": True}

    async def left() -> list[int]:
        answer = await api.post(f"{subscription}/retransmission", json=redrive)
        return [each["offset"] for each in answer.json()["messages"]]

    path = await requested(api, subscription)
    job_id = await chosen(database, 3)
    async with database.transaction() as session:
        repository = SendingRepository(session, "w-1")
        sending = await repository.take(LEASE)
        assert sending is not None
        whose = sending.subscription_id
        discards = [an_undelivered(each, subscription_id=whose) for each in range(4)]
        await UndeliveredRepository(session).record(discards, STREAM, 4)
        await repository.record(sending, [Sent(0, each, 1, 100 + each) for each in range(3)])
    assert await left() == [3]
    await api.delete(path)
    assert await left() == [3]
    async with database.transaction() as session:
        # Of the three the first was delivered before.
        dropped = [(1, 101), (1, 102), (0, 100)]
        await SendingRepository(session, "w-2").unmark(job_id, dropped)
    assert await left() == [1, 2, 3]

    # What another has delivered meanwhile is not to be sent again for it.
    path = await requested(api, subscription)
    other = await chosen(database, 3)
    async with database.transaction() as session:
        repository = SendingRepository(session, "w-1")
        sending = await repository.take(LEASE)
        assert sending is not None
        await repository.record(sending, [Sent(0, each, 1, 200 + each) for each in range(3)])
        await repository.unmark(job_id, dropped)
    assert await left() == [3]
    async with database.transaction() as session:
        repository = SendingRepository(session, "w-1")
        await repository.end(sending, RetransmissionState.DONE, None)
    path = await requested(api, subscription)
    third = await chosen(database, 1)
    async with database.transaction() as session:
        repository = SendingRepository(session, "w-1")
        sending = await repository.take(LEASE)
        assert sending is not None
        await repository.record(sending, [Sent(0, 1, 1, 301)])
        await repository.unmark(third, [(1, 301)])
    assert await left() == [3]
    assert other != third


@pytest.mark.parametrize("ends_first", [True, False])
async def test_what_it_sent_and_is_discarded_again_is_listed_once_as_it_ended_last(
    api: httpx.AsyncClient, subscription: str, database: Database, *, ends_first: bool
) -> None:
    path = await requested(api, subscription)
    job_id = await chosen(database, 1)
    async with database.transaction() as session:
        sending = await SendingRepository(session, "w-1").take(LEASE)
        assert sending is not None
        first = an_undelivered(7, subscription_id=sending.subscription_id)
        later = first.discarded_at + timedelta(hours=1)
        again = replace(first, partition=1, offset=107, discarded_at=later, retransmission=job_id)
        undelivered = UndeliveredRepository(session)
        await undelivered.record([first], STREAM, 1)
        if ends_first:
            await undelivered.record([again], STREAM, 2)
        await SendingRepository(session, "w-1").record(sending, [Sent(0, 7, 1, 107)])
        if not ends_first:
            await undelivered.record([again], STREAM, 2)
    listed = (await api.get(f"{subscription}/undelivered")).json()
    assert [(each["messageId"], each["offset"]) for each in listed] == [("m-7", 107)]
    assert (await api.get(path)).json()["counts"]["discarded"] == 1


@pytest.mark.parametrize("order", ["evd", "edv", "dev"])
async def test_what_a_cancelled_one_dropped_after_a_second_end_that_is_retracted_is_listed_again(
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
    end = replace(first, partition=1, offset=107, producer_epoch="ab", retransmission=job_id)
    retraction = Retraction(
        subscription_id=whose, partition=1, producer_epoch="ab", offset=107, finished=()
    )
    for position, step in enumerate(order, start=2):
        # The worker that discarded it is gone, and the next one drops it: known in any order.
        async with database.transaction() as session:
            if step == "d":
                await SendingRepository(session, "w-2").unmark(job_id, [(1, 107)])
            else:
                entry = end if step == "e" else retraction
                await UndeliveredRepository(session).record([entry], STREAM, position)
    listed = (await api.get(f"{subscription}/undelivered")).json()
    assert [(each["offset"], "redrivenAt" in each) for each in listed] == [(7, False)]
    redrive = {"only": "discarded", "dryRun": True}
    answer = await api.post(f"{subscription}/retransmission", json=redrive)
    assert [each["offset"] for each in answer.json()["messages"]] == [7]


async def test_one_that_has_ended_is_not_cancelled(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    path = await requested(api, subscription)
    await chosen(database, 0)
    assert (await api.get(path)).json()["state"] == "DONE"
    refused = await api.delete(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "JOB_ENDED")


async def test_one_whose_reading_was_cancelled_while_it_went_on_sends_nothing(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    path = await requested(api, subscription)
    async with database.transaction() as session:
        job = await JobRepository(session).take("r-1", LEASE)
        assert job is not None
    assert (await api.delete(path)).json()["state"] == "CANCELLED"
    async with database.transaction() as session:
        await RetransmissionRepository(session).chosen(job.claim, {"messages": 3}, [])
        assert await SendingRepository(session, "w-1").take(LEASE) is None
    assert (await api.get(path)).json()["state"] == "CANCELLED"


async def test_those_of_a_subscription_are_sent_one_after_the_other(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    for _ in range(2):
        await requested(api, subscription)
    first, second = [await chosen(database, 5) for _ in range(2)]
    async with database.transaction() as session:
        repository = SendingRepository(session, "w-1")
        taken = await repository.take(LEASE)
        assert taken is not None
        assert taken.id == first
        assert await SendingRepository(session, "w-2").take(LEASE) is None
        await repository.release(taken)
        assert await SendingRepository(session, "w-2").keep(taken, finished=0, lease=LEASE) is False
        assert (await SendingRepository(session, "w-2").take(LEASE)) == taken
    await api.delete(f"{subscription}/retransmissions/{first}")
    async with database.transaction() as session:
        taken = await SendingRepository(session, "w-2").take(LEASE)
        assert taken is not None
        assert taken.id == second


async def test_where_its_messages_are_is_forgotten_a_week_after_its_end(
    api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    places = select(func.count()).select_from(RetransmissionSentRow)
    path = await requested(api, subscription)
    await chosen(database, 3)
    for days, left in ((8, 0), (6, 3)):
        async with database.transaction() as session:
            repository = SendingRepository(session, "w-1")
            sending = await repository.take(LEASE)
            assert sending is not None
            await repository.record(sending, [Sent(0, each, 0, each) for each in range(3)])
            await repository.end(sending, RetransmissionState.DONE, None)
            ended = update(RetransmissionRow).where(RetransmissionRow.id == sending.id)
            await session.execute(ended.values(ended_at=func.now() - timedelta(days=days)))
        await Pruner(database, undelivered_kept=timedelta(days=30)).prune()
        async with database.transaction() as session:
            assert await session.scalar(places) == left
        path = await requested(api, subscription)
        await chosen(database, 3)
    assert (await api.get(path)).json()["state"] == "SENDING"


async def test_another_subscription_has_none_of_it(
    api: httpx.AsyncClient, subscription: str
) -> None:
    path = await requested(api, subscription)
    other = {"name": "other", "endpoint": "http://other.test/", "supportTeam": "B"}
    await api.post("/topics/shop.orders/subscriptions", json=other)
    for refused in (
        await api.get(path.replace("billing", "other")),
        await api.delete(path.replace("billing", "other")),
        await api.get(f"{subscription}/retransmissions/nothing"),
    ):
        assert refused.status_code == httpx.codes.NOT_FOUND
        assert refused.json()["code"] == "RETRANSMISSION_NOT_EXISTS"


@for_each(
    ("body", "path", "says"),
    [
        ({"only": "all"}, "from", "must be given, or offsets"),
        ({**ALL, "offsets": [{"partition": 0, "offset": 1}]}, "from", "not both"),
        (
            {"only": "undelivered", "offsets": [{"partition": 0, "offset": 1}]},
            "offsets",
            "belongs to only: all and missing",
        ),
        ({"only": "all", "offsets": [{"partition": 0, "offset": 1}] * 2}, "offsets", "once"),
        ({**ALL, "statusCodes": [400]}, "statusCodes", "belongs to only: undelivered"),
        ({**ALL, "only": "missing"}, "only", "trackingAll"),
        (
            {"only": "all", "to": "2026-01-01", "offsets": [{"partition": 0, "offset": 1}]},
            "to",
            "belongs to from",
        ),
        ({**ALL, "from": "2300-01-01"}, "from", "must be before to"),
        ({**ALL, "from": "1999-01-01"}, "from", "at most 366 days ago"),
        ({**ALL, "filter": {**FILTER, "path": "$["}}, "filters.0.path", ""),
    ],
)
async def test_what_does_not_go_together_is_refused(
    api: httpx.AsyncClient, subscription: str, body: dict[str, Any], path: str, says: str
) -> None:
    refused = await api.post(f"{subscription}/retransmission", json=body)
    assert refused.status_code == httpx.codes.BAD_REQUEST
    [problem] = refused.json()["details"]
    assert problem["path"] == path
    assert says in problem["message"]


async def test_a_field_refuses_what_it_cannot_be_and_says_what_it_can(
    api: httpx.AsyncClient, subscription: str
) -> None:
    failed = []
    for name, setting in BODY.items():
        field, _, item = name.partition(".")
        only = "undelivered" if field in {"statusCodes", "reason"} else "all"
        for value, says in setting.wrong:
            body = {**ALL, "only": only, field: [value] if item else value}
            refused = await api.post(f"{subscription}/retransmission", json=body)
            answer = refused.json()
            problems = answer.get("details", []) if isinstance(answer, dict) else []
            told = " ".join(each["message"] for each in problems if each["path"] == name)
            if refused.status_code != 400 or not told or not all(each in told for each in says):
                failed.append(f"{name} = {str(value)[:50]!r}: {refused.text[:200]}")
    assert not failed, "\n".join(failed)
    for name in ("share", "rate"):
        no_number = b'{"only": "all", "from": "-6h", "%b": NaN}' % name.encode()
        refused = await api.post(f"{subscription}/retransmission", content=no_number)
        assert refused.status_code == httpx.codes.BAD_REQUEST, refused.text


def test_every_field_of_the_body_is_tried() -> None:
    fields = {each.alias or name for name, each in RetransmitBody.model_fields.items()}
    assert fields == {name for name in BODY if "." not in name}

"""`?wait=` of a publish request: on a real database, with a worker played by the test."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from app.domain.catalogue.topic import Ack
from app.domain.message import HEADER_RECEIPT, NewRecord
from app.domain.runtime.receipt import FinalOutcome, Receipt, ReceiptAddress, address_of
from app.log.interface import Position
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.runtime.receipts import notify_receipts
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog

PATIENCE_S = 60.0


class AskingLog(MemoryLog):
    """A log that says who waits for each record."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: asyncio.Queue[ReceiptAddress | None] = asyncio.Queue()

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        positions = await super().append(topic, records, ack=ack)
        for record in records:
            header = dict(record.headers).get(HEADER_RECEIPT)
            self.asked.put_nowait(None if header is None else address_of(header))
        return positions

    async def address(self) -> ReceiptAddress:
        """Who waits for the next record."""
        async with asyncio.timeout(PATIENCE_S):
            address = await self.asked.get()
        assert address is not None
        return address


@pytest.fixture
def log() -> AskingLog:
    return AskingLog()


class Worker:
    """Tells receipts as workers do."""

    def __init__(self, database: Database, topic: str) -> None:
        self._database = database
        self._topic = topic

    async def tell(self, to: ReceiptAddress, name: str, outcome: FinalOutcome, *why: Any) -> None:  # noqa: ANN401 - status and reason
        async with self._database.transaction() as session:
            found = await SubscriptionRepository(session).get(self._topic, name)
            receipt = Receipt(to.number, found.id, outcome, *why)
            await notify_receipts(session, {to.waiter: [receipt]})


@pytest.fixture
def worker(database: Database, topic: str) -> Worker:
    return Worker(database, topic)


async def subscribed(api: httpx.AsyncClient, topic: str, *names: str) -> None:
    for name in names:
        body = {"name": name, "endpoint": "http://h.test/"}
        (await api.post(f"/topics/{topic}/subscriptions", json=body)).raise_for_status()


def outcomes(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 201
    return {each["name"]: each["outcome"] for each in answer.json()["subscriptions"]}


async def test_answers_when_every_subscription_is_done_and_says_how(
    api: httpx.AsyncClient, topic: str, log: AskingLog, worker: Worker
) -> None:
    await subscribed(api, topic, "a", "b", "c", "asleep")
    await api.put(f"/topics/{topic}/subscriptions/asleep/state", json="SUSPENDED")
    async with asyncio.TaskGroup() as tasks:
        asked = api.post(f"/topics/{topic}?wait=20s", content=b"1")
        publishing = tasks.create_task(asked)
        address = await log.address()
        await worker.tell(address, "a", FinalOutcome.DELIVERED)
        await worker.tell(address, "b", FinalOutcome.FILTERED)
        await worker.tell(address, "c", FinalOutcome.DISCARDED, 400, "refused")
    answer = publishing.result()
    assert answer.status_code == 201
    assert answer.json() == {
        "id": answer.headers["Hermes-Message-Id"],
        "complete": True,
        "subscriptions": [
            {"name": "a", "outcome": "DELIVERED"},
            {"name": "asleep", "outcome": "SUSPENDED"},
            {"name": "b", "outcome": "FILTERED"},
            {"name": "c", "outcome": "DISCARDED", "status": 400, "reason": "refused"},
        ],
    }


async def test_when_time_is_up_it_is_stored_all_the_same_and_the_rest_is_pending(
    api: httpx.AsyncClient, topic: str, log: AskingLog, worker: Worker
) -> None:
    await subscribed(api, topic, "a", "b")
    async with asyncio.TaskGroup() as tasks:
        publishing = tasks.create_task(api.post(f"/topics/{topic}?wait=4s", content=b"1"))
        await worker.tell(await log.address(), "a", FinalOutcome.DELIVERED)
    answer = publishing.result()
    assert outcomes(answer) == {"a": "DELIVERED", "b": "PENDING"}
    assert answer.json()["complete"] is False
    assert [record.value for record in log.records(topic)] == [b"1"]


async def test_nobody_subscribed_is_an_answer_at_once(
    api: httpx.AsyncClient, topic: str, subscription: str
) -> None:
    (await api.put(f"{subscription}/state", json="SUSPENDED")).raise_for_status()
    answer = await api.post(f"/topics/{topic}?wait=30s", content=b"1")
    assert outcomes(answer) == {"billing": "SUSPENDED"}
    assert answer.json()["complete"] is True


async def test_a_publisher_who_does_not_wait_has_no_receipts_and_no_body(
    api: httpx.AsyncClient, topic: str, subscription: str, log: AskingLog
) -> None:
    answer = await api.post(f"/topics/{topic}", content=b"1")
    assert (answer.status_code, answer.content) == (201, b"")
    assert log.asked.get_nowait() is None
    assert subscription


async def test_waits_for_the_alternate_topic_where_that_takes_the_message(
    api: httpx.AsyncClient, topic: str, log: AskingLog, worker: Worker
) -> None:
    body = {"name": "shop.main", "partitions": 1, "alternateTopic": topic}
    (await api.post("/topics", json=body)).raise_for_status()
    await subscribed(api, topic, "a")
    async with asyncio.TaskGroup() as tasks:
        asked = api.post("/topics/shop.main?mandatory=true&wait=20", content=b"1")
        publishing = tasks.create_task(asked)
        await worker.tell(await log.address(), "a", FinalOutcome.DELIVERED)
    assert outcomes(publishing.result()) == {"a": "DELIVERED"}


@pytest.mark.parametrize(("expression", "status"), [(None, 201), ("delivered >= 0", 202)])
async def test_a_duplicate_is_answered_at_once_and_not_as_acknowledged(
    api: httpx.AsyncClient, log: AskingLog, expression: str | None, status: int
) -> None:
    body = {"name": "shop.once", "partitions": 1, "deduplication": {}}
    (await api.post("/topics", json=body)).raise_for_status()
    await subscribed(api, "shop.once", "a")
    headers = {"Idempotency-Key": "k"}
    (await api.post("/topics/shop.once", content=b"1", headers=headers)).raise_for_status()
    query = {"wait": "30s"} | ({"ackExpression": expression} if expression else {})
    again = await api.post("/topics/shop.once", params=query, content=b"1", headers=headers)
    assert (again.status_code, again.headers["Angelia-Duplicate"]) == (status, "true")
    assert (again.content, len(log.records("shop.once"))) == (b"", 1)


@for_each("wait", ["", "31s", "soon"])
async def test_a_wait_out_of_range_is_refused_and_nothing_stored(
    api: httpx.AsyncClient, topic: str, log: AskingLog, wait: str
) -> None:
    refused = await api.post(f"/topics/{topic}?wait={wait}", content=b"1")
    (detail,) = refused.json()["details"]
    assert (refused.status_code, detail["path"]) == (400, "wait")
    assert detail["message"] == "must be 0 to 30 seconds, as 5s or 500ms"
    assert log.records(topic) == []


async def test_batches_do_not_wait(api: httpx.AsyncClient, topic: str, log: AskingLog) -> None:
    refused = await api.post(f"/topics/{topic}/batch?wait=5s", json=[1])
    (detail,) = refused.json()["details"]
    assert (refused.status_code, detail["path"]) == (400, "wait")
    assert log.records(topic) == []


async def test_is_answered_as_soon_as_the_ack_expression_is_true(
    api: httpx.AsyncClient, topic: str, log: AskingLog, worker: Worker
) -> None:
    await subscribed(api, topic, "a", "b")
    query = {"wait": "20s", "ackExpression": "delivered >= 1"}
    async with asyncio.TaskGroup() as tasks:
        publishing = tasks.create_task(api.post(f"/topics/{topic}", params=query, content=b"1"))
        await worker.tell(await log.address(), "b", FinalOutcome.DELIVERED)
    answer = publishing.result()
    assert outcomes(answer) == {"a": "PENDING", "b": "DELIVERED"}
    assert (answer.json()["acknowledged"], answer.json()["complete"]) == (True, False)


async def test_a_message_that_is_not_acknowledged_is_stored_and_says_so(
    api: httpx.AsyncClient, topic: str, log: AskingLog, worker: Worker
) -> None:
    await subscribed(api, topic, "a")
    query = {"wait": "20s", "ackExpression": "outcomes['a'] == 'DELIVERED'"}
    async with asyncio.TaskGroup() as tasks:
        publishing = tasks.create_task(api.post(f"/topics/{topic}", params=query, content=b"1"))
        await worker.tell(await log.address(), "a", FinalOutcome.DISCARDED, 400, "refused")
    answer = publishing.result()
    assert (answer.status_code, answer.json()["acknowledged"]) == (202, False)
    assert [record.value for record in log.records(topic)] == [b"1"]


@pytest.mark.parametrize("path", ["", "/batch"])
async def test_an_ack_expression_that_cannot_be_stores_nothing(
    api: httpx.AsyncClient, topic: str, log: AskingLog, path: str
) -> None:
    query = {"ackExpression": "delivered >", **({} if path else {"wait": "1s"})}
    refused = await api.post(f"/topics/{topic}{path}", params=query, json=[])
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "ackExpression")
    assert log.records(topic) == []

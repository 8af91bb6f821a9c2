from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from app.api.management.discards.undelivered_bodies import epoch_ms
from app.domain.catalogue.subscription import Subscription
from app.domain.circuit import CircuitReading, CircuitState
from app.domain.discards.undelivered import Undelivered
from app.domain.message import Partition
from app.domain.status import AttemptCounts, CursorStatus, Output, RateMode, SubscriptionLoad
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.health.statuses import StatusRepository
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.storage.builders import a_failed_attempt, a_load, report

NOON = datetime(2026, 1, 31, 12, 0, 0, 123_000, tzinfo=UTC)
NOON_MS = 1_769_860_800_123


@pytest.fixture
async def stored(topic: str, subscription: str, database: Database) -> Subscription:
    assert subscription.endswith("/billing")
    async with database.transaction() as session:
        return await SubscriptionRepository(session).get(topic, "billing")


def discarded(stored: Subscription, offset: int, *, body: bytes = b"body") -> Undelivered:
    return Undelivered(
        subscription_id=stored.id,
        topic=stored.topic,
        subscription=stored.name,
        message_id=f"m{offset}",
        discarded_at=NOON + timedelta(minutes=offset),
        reason=f"Message sending failed with status code:{400 + offset}",
        status=400 + offset,
        answer="no such order" if offset else "",
        attempts=1,
        partition=1,
        offset=offset,
        body=body,
    )


async def record(database: Database, rows: Sequence[Undelivered]) -> None:
    async with database.transaction() as session:
        stream = Partition("angelia.undelivered", 0)
        await UndeliveredRepository(session).record(rows, stream, len(rows))


def a_circuit(state: str) -> CircuitReading:
    return CircuitReading(state=CircuitState(state), since=NOON, reason=f"it is {state}")


def a_down_output() -> Output:
    down = Output(rate=0.5, mode=RateMode.HEARTBEAT, reason="it is down", since=NOON)
    later = NOON + timedelta(seconds=30)
    return replace(down, circuit=a_circuit("OPEN"), next_probe_at=later)


def a_half_open_output() -> Output:
    output = Output(rate=100, reason="rising", since=NOON, circuit=a_circuit("HALF_OPEN"))
    return replace(output, next_probe_at=NOON + timedelta(seconds=2.5))


async def test_figures_sum_up_what_the_workers_report(
    api: httpx.AsyncClient, subscription: str, stored: Subscription, database: Database
) -> None:
    cursors = [
        CursorStatus(
            subscription_id=stored.id,
            topic=stored.topic,
            partition=index,
            worker_id="w",
            offset=2,
            end=5,
            delivered=10,
            discarded=1,
            filtered=4,
            volume=100,
        )
        for index in range(2)
    ]
    counts = AttemptCounts(
        codes_2xx=8, codes_4xx=2, codes_5xx=4, timeouts=1, other_errors=3, retries=6, bytes=80
    )
    loads = [
        SubscriptionLoad(
            subscription_id=stored.id,
            worker_id=worker,
            window=timedelta(seconds=2),
            in_flight=3,
            waiting_retries=1,
            counts=counts,
            output=output,
        )
        for worker, output in (
            ("w1", a_down_output()),
            ("w2", a_half_open_output()),
        )
    ]
    await report(database, *loads, cursors=cursors)
    assert (await api.get(f"{subscription}/metrics")).json() == {
        "delivered": 20,
        "discarded": 2,
        "filtered": 8,
        "volume": 200,
        "inflight": 6,
        "waitingRetries": 2,
        "lag": 0,
        "rate": 18.0,
        "throughput": 80.0,
        "batchRate": 0.0,
        "timeouts": 1.0,
        "otherErrors": 3.0,
        "codes2xx": 8.0,
        "codes4xx": 2.0,
        "codes5xx": 4.0,
        "retries": 6.0,
        "outputRate": 100.5,
        "mode": "HEARTBEAT",
        "modeReason": "it is down",
        "modeSince": NOON.timestamp(),
        "circuit": "OPEN",
        "circuitReason": "it is OPEN",
        "circuitSince": NOON.timestamp(),
        "nextProbeAt": NOON.timestamp() + 2.5,
    }


async def test_the_lag_is_told_from_the_log_and_from_the_workers_when_it_is_down(
    api: httpx.AsyncClient,
    subscription: str,
    stored: Subscription,
    database: Database,
    log: MemoryLog,
) -> None:
    await api.post(f"/topics/{stored.topic}", content=b"1", headers={"Partition-Key": "k"})
    bounds = await log.bounds(await log.partitions(stored.topic))
    (index,) = (partition.index for partition, each in bounds.items() if each.end)
    cursor = CursorStatus(
        subscription_id=stored.id,
        topic=stored.topic,
        partition=index,
        worker_id="w",
        offset=0,
        end=0,
        delivered=0,
        discarded=0,
        volume=0,
    )
    async with database.transaction() as session:
        await StatusRepository(session).write([cursor], [])
    assert (await api.get(f"{subscription}/metrics")).json()["lag"] == 1
    log.go_down()
    assert (await api.get(f"{subscription}/metrics")).json()["lag"] == 0


async def test_messages_that_are_still_retried_are_listed_the_newest_failure_first(
    api: httpx.AsyncClient, subscription: str, stored: Subscription, database: Database
) -> None:
    assert (await api.get(f"{subscription}/retries")).json() == []
    unanswered = a_failed_attempt(2, status=None, reason="refused", answer="")
    for worker, failed in (("w-1", a_failed_attempt(1)), ("w-2", unanswered)):
        await report(database, a_load(stored.id, worker, failing=(failed,)))
    first, last = (await api.get(f"{subscription}/retries")).json()
    assert (first["messageId"], first["reason"]) == ("f-2", "refused")
    assert not {"statusCode", "answer"} & first.keys()
    assert last == {
        "messageId": "f-1",
        "timestamp": epoch_ms(a_failed_attempt(1).at),
        "attempts": 2,
        "reason": "Message sending failed with status code:503",
        "statusCode": 503,
        "answer": "busy",
    }


async def test_the_last_undelivered_message_is_an_empty_404_when_there_is_none(
    api: httpx.AsyncClient, subscription: str
) -> None:
    answer = await api.get(f"{subscription}/undelivered/last")
    assert (answer.status_code, answer.content) == (404, b"")
    assert (await api.get(f"{subscription}/undelivered")).json() == []


async def test_the_last_undelivered_message_is_shown_as_hermes_does_and_more(
    api: httpx.AsyncClient, subscription: str, stored: Subscription, database: Database
) -> None:
    await record(database, [discarded(stored, 0), discarded(stored, 4)])
    assert (await api.get(f"{subscription}/undelivered/last")).json() == {
        "messageId": "m4",
        "timestamp": NOON_MS + 240_000,
        "subscription": "billing",
        "topicName": "shop.orders",
        "status": "DISCARDED",
        "reason": "Message sending failed with status code:404",
        "message": "body",
        "partition": 1,
        "offset": 4,
        "cluster": "primary",
        "statusCode": 404,
        "answer": "no such order",
        "attempts": 1,
    }
    [_, first] = (await api.get(f"{subscription}/undelivered")).json()
    assert "answer" not in first


async def test_an_undelivered_message_without_an_answer_says_why_its_last_attempt_failed(
    api: httpx.AsyncClient, subscription: str, stored: Subscription, database: Database
) -> None:
    late = "No complete answer within 1000 ms"
    unanswered = replace(discarded(stored, 1), status=None, answer="", last_failure=late)
    await record(database, [discarded(stored, 0), unanswered])
    last = (await api.get(f"{subscription}/undelivered/last")).json()
    assert last["lastFailure"] == late
    assert "statusCode" not in last
    listed = (await api.get(f"{subscription}/undelivered")).json()
    assert [each.get("lastFailure") for each in listed] == [late, None]


async def test_a_body_that_is_not_text_is_shown_exactly_beside_its_text(
    api: httpx.AsyncClient, subscription: str, stored: Subscription, database: Database
) -> None:
    await record(database, [discarded(stored, 0, body=b"a\xff")])
    last = (await api.get(f"{subscription}/undelivered/last")).json()
    assert (last["message"], last["messageBase64"]) == ("a\N{REPLACEMENT CHARACTER}", "Yf8=")


async def test_undelivered_messages_are_paged_newest_first(
    api: httpx.AsyncClient, subscription: str, stored: Subscription, database: Database
) -> None:
    await record(database, [discarded(stored, offset) for offset in range(5)])
    pages, url = [], f"{subscription}/undelivered?limit=2&reason=status"
    while url:
        answer = await api.get(url)
        pages.append([item["offset"] for item in answer.json()])
        url = answer.links.get("next", {}).get("url", "")
    assert pages == [[4, 3], [2, 1], [0]]


@pytest.fixture
async def three_discards(stored: Subscription, database: Database) -> None:
    await record(database, [discarded(stored, offset) for offset in range(3)])


@pytest.mark.usefixtures("three_discards")
@for_each(
    ("query", "offsets"),
    [
        ({"since": "2026-01-31T12:01:00.123Z"}, [2, 1]),
        ({"since": "2026-01-31T13:01:00.123+01:00"}, [2, 1]),
        ({"until": str(NOON_MS + 60_000)}, [0]),
        ({"status": "401"}, [1]),
        ({"status": "DISCARDED"}, [2, 1, 0]),
        ({"reason": "code:402"}, [2]),
        ({"reason": "timeout"}, []),
        ({"text": "dy"}, [2, 1, 0]),
        ({"text": "DY"}, []),
    ],
)
async def test_undelivered_messages_are_found_by(
    api: httpx.AsyncClient,
    subscription: str,
    query: dict[str, str],
    offsets: list[int],
) -> None:
    answer = await api.get(f"{subscription}/undelivered", params=query)
    assert [item["offset"] for item in answer.json()] == offsets

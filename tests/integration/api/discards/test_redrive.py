"""Sending discarded messages again by `POST …/retransmission`."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import delete, select

from app.api.management.replay.redrive_bodies import RedriveBody
from app.domain.catalogue.subscription import Subscription
from app.domain.discards.redrive import REDRIVE_MESSAGES_MAX
from app.domain.discards.undelivered import Undelivered
from app.domain.message import HEADER_CONTENT_TYPE, HEADER_ID, HEADER_TARGET, Partition, Record
from app.domain.targeted import RecordTarget
from app.services.discards.redrives import CALL_MESSAGES_MAX
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.discards.undelivered import UndeliveredRepository
from app.storage.runtime.recorder_positions import RecorderPositions
from app.storage.tables import UndeliveredRow
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.discards.gate import Gate
from tests.integration.api.fields.wrong_values import (
    NO_STRINGS,
    Setting,
    flag,
    lists,
    moments,
    number,
    text,
    words,
    wrong,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_MS = 1_769_860_800_000
ALL = {"only": "discarded"}

BODY: dict[str, Setting] = {
    "only": Setting(
        wrong=words("must be discarded, or all, undelivered or missing", "some", ""),
        required=True,
    ),
    "from": Setting(wrong=moments("yesterday", "-6", "")),
    "to": Setting(wrong=moments("tomorrow", "")),
    "reason": Setting(wrong=[*wrong("must be a string", *NO_STRINGS), *wrong("zero", "x\0")]),
    "statusCodes": Setting(wrong=[*lists(100, 400), *wrong("at least 1 item", [])]),
    "statusCodes.0": Setting(wrong=number(100, 599)),
    "messageIds": Setting(wrong=[*lists(1000, "m"), *wrong("at least 1 item", [])]),
    "messageIds.0": Setting(wrong=text(0, 10**4)[:4]),
    "key": Setting(wrong=[*wrong("must be a string", *NO_STRINGS), *wrong("zero", "x\0")]),
    "text": Setting(wrong=[*wrong("must be a string", *NO_STRINGS), *wrong("zero", "x\0")]),
    "again": Setting(wrong=flag()),
    "mode": Setting(wrong=wrong("must be 'replay'", "back", "", 1)),
    "dryRun": Setting(wrong=flag()),
}


@pytest.fixture
def log() -> Gate:
    return Gate()


@pytest.fixture
async def stored(topic: str, subscription: str, database: Database) -> Subscription:
    assert subscription.endswith("/billing")
    async with database.transaction() as session:
        return await SubscriptionRepository(session).get(topic, "billing")


@pytest.fixture
def path(subscription: str) -> str:
    return f"{subscription}/retransmission"


def discarded(stored: Subscription, number: int, **settings: Any) -> Undelivered:  # noqa: ANN401 - fields of the value
    values: dict[str, Any] = {
        "subscription_id": stored.id,
        "topic": stored.topic,
        "subscription": stored.name,
        "message_id": f"m{number}",
        "discarded_at": NOON + timedelta(minutes=number),
        "reason": f"code:{400 + number % 3}",
        "status": 400 + number % 3,
        "attempts": 1,
        "partition": 1,
        "offset": number,
        "body": b"body %d" % number,
        "headers": (("Content-Type", "text/plain"), ("X-Trace", "1")),
        "key": b"key",
    }
    return Undelivered(**{**values, **settings})


async def record(database: Database, rows: Sequence[Undelivered]) -> None:
    async with database.transaction() as session:
        stream = Partition("angelia.undelivered", 0)
        repository = UndeliveredRepository(session)
        before = (await RecorderPositions(session).all()).get(stream, 0)
        await repository.record(rows, stream, before + len(rows))


async def marks(database: Database) -> dict[str, str | None]:
    """Which redrive each message was in."""
    async with database.transaction() as session:
        query = select(UndeliveredRow.message_id, UndeliveredRow.redrive_id)
        return {row.message_id: row.redrive_id for row in await session.execute(query)}


def sent(log: MemoryLog) -> list[str]:
    return [(each.header(HEADER_ID) or b"").decode() for each in log.records("shop.orders")]


async def done(api: httpx.AsyncClient, path: str, **asked: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    response = await api.post(path, json={**ALL, **asked})
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json()
    return answered


async def test_a_discarded_message_goes_to_its_subscription_as_it_was_published(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    await record(database, [discarded(stored, 1, body=b"\x00\xff")])
    answered = await done(api, path)
    redrive_id = answered.pop("id")
    newest = NOON_MS + 60_000
    assert answered == {"count": 1, "bytes": 2, "more": False, "newest": newest}
    [sent_again] = log.records("shop.orders")
    assert isinstance(sent_again, Record)
    assert (sent_again.key, sent_again.value) == (b"key", b"\x00\xff")
    assert sent_again.header(HEADER_ID) == b"m1"
    assert sent_again.header(HEADER_CONTENT_TYPE) == b"text/plain"
    assert sent_again.header(b"h-X-Trace") == b"1"
    assert sent_again.header(HEADER_TARGET) == RecordTarget(stored.id, redrive_id).header()
    assert abs(sent_again.timestamp_ms - datetime.now(UTC).timestamp() * 1000) < 60_000
    assert await marks(database) == {"m1": redrive_id}


async def test_asking_again_goes_on_and_doubles_nothing(
    api: httpx.AsyncClient,
    path: str,
    stored: Subscription,
    database: Database,
    log: Gate,
    subscription: str,
) -> None:
    count = 2 * REDRIVE_MESSAGES_MAX + 5
    await record(database, [discarded(stored, number) for number in range(count)])
    answers = [await done(api, path) for _ in range(4)]
    assert [(each["count"], each["more"]) for each in answers] == [
        (1000, True),
        (1000, True),
        (5, False),
        (0, False),
    ]
    assert "id" not in answers[3]
    assert sent(log) == [f"m{number}" for number in range(count)]
    last = (await api.get(f"{subscription}/undelivered/last")).json()
    assert last["redrivenAt"] >= last["timestamp"]


async def test_what_was_sent_again_is_only_sent_again_when_that_is_asked_for(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    await record(database, [discarded(stored, 1)])
    first = await done(api, path)
    assert (await done(api, path))["count"] == 0
    again = await done(api, path, again=True)
    assert sent(log) == ["m1", "m1"]
    assert await marks(database) == {"m1": again["id"]}
    assert first["id"] != again["id"]


@for_each(
    ("asked", "expected"),
    [
        ({"from": "2026-01-31T12:02:00Z"}, ["m2", "m3", "m4"]),
        ({"to": str(NOON_MS + 120_000)}, ["m0", "m1"]),
        ({"from": "2026-01-31T12:01:00Z", "to": "2026-01-31T12:02:00Z"}, ["m1"]),
        ({"reason": "CODE:401"}, ["m1", "m4"]),
        ({"statusCodes": [400, 402]}, ["m0", "m2", "m3"]),
        ({"messageIds": ["m3", "m0", "none"]}, ["m0", "m3"]),
        ({"messageIds": ["m3", "m1"], "statusCodes": [401]}, ["m1"]),
        ({"statusCodes": [500]}, []),
        ({"text": "y 3"}, ["m3"]),
        ({"text": "Y 3"}, []),
        ({"key": "key", "text": "body", "statusCodes": [402]}, ["m2"]),
        ({"key": "ke"}, []),
    ],
)
async def test_only_those_are_sent_that_pass_all_that_is_given(
    api: httpx.AsyncClient,
    path: str,
    stored: Subscription,
    database: Database,
    log: Gate,
    *,
    asked: dict[str, Any],
    expected: list[str],
) -> None:
    others = [discarded(stored, 9, subscription_id="of another", message_id="m3")]
    await record(database, [discarded(stored, number) for number in range(5)] + others)
    before = sent(log)
    assert (await done(api, path, **asked))["count"] == len(expected)
    assert sent(log) == before + expected
    async with database.transaction() as session:
        await session.execute(delete(UndeliveredRow))


@pytest.mark.parametrize("field", ["key", "text"])
async def test_what_is_no_text_is_refused(api: httpx.AsyncClient, path: str, field: str) -> None:
    body = f'{{"only": "discarded", "{field}": "\\ud800"}}'
    headers = {"Content-Type": "application/json"}
    answer = await api.post(path, content=body.encode("ascii"), headers=headers)
    assert answer.status_code == 400


async def test_a_dry_run_says_what_would_be_sent_and_sends_nothing(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    await record(database, [discarded(stored, number) for number in range(25)])
    log.go_down()
    answered = await done(api, path, dryRun=True)
    assert (answered["count"], answered["more"], "id" in answered) == (25, False, False)
    assert answered["bytes"] == 10 * 6 + 15 * 7
    assert [each["messageId"] for each in answered["messages"]] == [f"m{n}" for n in range(20)]
    assert answered["messages"][1] == {
        "messageId": "m1",
        "timestamp": NOON_MS + 60_000,
        "reason": "code:401",
        "statusCode": 401,
        "partition": 1,
        "offset": 1,
        "size": 6,
    }
    assert set((await marks(database)).values()) == {None}


async def test_one_that_was_discarded_again_is_sent_once_in_the_order_of_last_discards(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    later = discarded(stored, 1, discarded_at=NOON + timedelta(minutes=9))
    await record(database, [discarded(stored, number) for number in range(3)] + [later])
    assert (await done(api, path))["count"] == 3
    assert (await done(api, path))["count"] == 0
    assert sent(log) == ["m0", "m2", "m1"]


async def test_a_log_that_is_down_sends_and_marks_nothing(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    await record(database, [discarded(stored, 1)])
    log.go_down()
    refused = await api.post(path, json=ALL)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert await marks(database) == {"m1": None}
    log.come_back()
    assert (await done(api, path))["count"] == 1


async def test_a_log_that_goes_down_meanwhile_has_those_marked_that_it_took(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    await record(database, [discarded(stored, number) for number in range(250)])
    log.messages_left = 100
    answered = await done(api, path)
    assert (answered["count"], answered["more"]) == (100, True)
    log.come_back()
    log.messages_left = 1000
    assert (await done(api, path))["count"] == 150
    assert sent(log) == [f"m{number}" for number in range(250)]


async def test_what_the_log_may_not_have_is_sent_again_rather_than_lost(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    await record(database, [discarded(stored, 1)])
    log.acknowledges = False
    assert (await api.post(path, json=ALL)).status_code == 503
    log.acknowledges = True
    assert (await done(api, path))["count"] == 1
    assert sent(log) == ["m1", "m1"]


async def test_two_requests_at_once_send_nothing_twice(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    await record(database, [discarded(stored, number) for number in range(3)])
    log.open.clear()
    async with asyncio.TaskGroup() as both:
        first = both.create_task(done(api, path))
        await log.asked.wait()
        second = await done(api, path)
        log.open.set()
    assert (second["count"], (await first)["count"]) == (0, 3)
    assert sent(log) == ["m0", "m1", "m2"]


async def test_what_ended_again_is_recorded_while_others_are_still_sent(
    api: httpx.AsyncClient,
    path: str,
    stored: Subscription,
    database: Database,
    log: Gate,
    subscription: str,
) -> None:
    await record(database, [discarded(stored, number) for number in range(150)])
    log.closes = True
    async with asyncio.timeout(90), asyncio.TaskGroup() as tasks:
        redrive = tasks.create_task(done(api, path))
        await log.held_up.wait()
        its_id = next(each for each in (await marks(database)).values() if each)
        end = discarded(
            stored, 0, offset=1_000, retransmission=its_id, discarded_at=NOON + timedelta(days=1)
        )
        await record(database, [end])
        log.closes = False
        log.open.set()
    answered = await redrive
    assert (answered["count"], answered["id"], answered["more"]) == (150, its_id, False)
    listed = await api.get(f"{subscription}/undelivered", params={"messageId": "m0"})
    assert [each["offset"] for each in listed.json()] == [1_000]


@pytest.mark.parametrize("again", [False, True])
async def test_two_requests_at_once_share_what_both_have_found(
    api: httpx.AsyncClient,
    path: str,
    stored: Subscription,
    database: Database,
    log: Gate,
    *,
    again: bool,
) -> None:
    await record(database, [discarded(stored, number) for number in range(150)])
    log.closes = True
    async with asyncio.timeout(90), asyncio.TaskGroup() as both:
        first = both.create_task(done(api, path, again=again))
        await log.held_up.wait()
        log.closes, log.held_up = False, asyncio.Event()
        second = both.create_task(done(api, path))
        # The last of the first are its own; and nothing else is left for the second.
        assert (await second)["count"] == 0
        log.open.set()
    assert (await first)["count"] == 150
    assert sorted(sent(log)) == sorted(f"m{number}" for number in range(150))


async def test_bytes_are_bounded_and_the_rest_goes_with_the_next_request(
    api: httpx.AsyncClient,
    path: str,
    stored: Subscription,
    database: Database,
    log: Gate,
    subscription: str,
) -> None:
    largest = 2 * 1024 * 1024
    topic_path = subscription.partition("/subscriptions")[0]
    (await api.put(topic_path, json={"maxMessageSize": largest})).raise_for_status()
    body = b"x" * largest
    await record(database, [discarded(stored, number, body=body) for number in range(9)])
    assert [(await done(api, path))["count"] for _ in range(2)] == [8, 1]
    assert log.taken == 9


async def test_a_limited_number_of_messages_is_appended_at_the_same_time(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    await record(database, [discarded(stored, number) for number in range(150)])
    log.open.clear()
    async with asyncio.timeout(90), asyncio.TaskGroup() as tasks:
        redrive = tasks.create_task(done(api, path))
        await log.held_up.wait()
        assert log.waiting == CALL_MESSAGES_MAX
        log.open.set()
    assert (await redrive)["count"] == 150


async def test_one_that_its_topic_does_not_take_any_more_is_named(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    large = discarded(stored, 1, body=b"x" * 2049)
    await record(database, [discarded(stored, 0), large, discarded(stored, 2)])
    assert await done(api, path, dryRun=True) | {"messages": []} == {
        "count": 1,
        "bytes": 6,
        "more": True,
        "newest": NOON_MS,
        "messages": [],
    }
    assert (await done(api, path))["more"]
    refused = await api.post(path, json=ALL)
    assert refused.status_code == 413
    assert "m1 has 2049 bytes" in refused.json()["message"]
    assert "maxMessageSize" in refused.json()["message"]
    await done(api, path, messageIds=["m2"])
    assert sent(log) == ["m0", "m2"]


async def test_one_that_is_too_large_with_its_headers_is_named_and_others_are_sent_once(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    await record(database, [discarded(stored, number) for number in range(3)])
    log.too_large = {b"m1"}
    answered = await done(api, path)
    assert (answered["count"], answered["more"]) == (2, True)
    for _ in range(2):
        refused = await api.post(path, json=ALL)
        assert refused.status_code == 413
        assert "Message m1 " in refused.json()["message"]
    assert sent(log) == ["m0", "m2"]
    redrive_id = answered["id"]
    assert await marks(database) == {"m0": redrive_id, "m1": None, "m2": redrive_id}


async def test_one_that_its_topic_refuses_for_what_it_is_is_named_and_others_are_sent(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    await record(database, [discarded(stored, 0), discarded(stored, 1, key=None)])
    log.compacted.add("shop.orders")
    assert (await done(api, path))["count"] == 1
    refused = await api.post(path, json=ALL)
    assert refused.status_code == 400
    assert "Message m1 " in refused.json()["message"]
    assert sent(log) == ["m0"]


async def test_a_suspended_subscription_is_sent_to(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database, log: Gate
) -> None:
    await record(database, [discarded(stored, 1)])
    suspended = await api.put(f"{path.removesuffix('/retransmission')}/state", json="SUSPENDED")
    suspended.raise_for_status()
    assert (await done(api, path))["count"] == 1
    assert sent(log) == ["m1"]


async def test_only_what_exists_is_sent_to(api: httpx.AsyncClient, path: str) -> None:
    assert path
    for wrong_path, status, code in (
        ("/topics/shop.orders/subscriptions/none", 400, "SUBSCRIPTION_NOT_EXISTS"),
        ("/topics/no.such/subscriptions/none", 404, "TOPIC_NOT_EXISTS"),
    ):
        refused = await api.post(f"{wrong_path}/retransmission", json=ALL)
        assert (refused.status_code, refused.json()["code"]) == (status, code)


def test_every_field_of_the_body_has_its_row() -> None:
    read = {info.alias or name for name, info in RedriveBody.model_fields.items()}
    assert {name for name in BODY if "." not in name} == read


async def test_a_field_refuses_what_it_cannot_be_and_says_what_it_can(
    api: httpx.AsyncClient, path: str, stored: Subscription, database: Database
) -> None:
    await record(database, [discarded(stored, 1)])
    failed = []
    for name, setting in BODY.items():
        field, _, item = name.partition(".")
        for value, says in setting.wrong:
            refused = await api.post(path, json={**ALL, field: [value] if item else value})
            problems = refused.json().get("details", [])
            told = " ".join(each["message"] for each in problems if each["path"] == name)
            if refused.status_code != 400 or not all(each in told for each in says):
                failed.append(f"{name} = {str(value)[:50]!r}: {refused.text[:200]}")
    assert not failed, "\n".join(failed)
    assert await marks(database) == {"m1": None}


async def test_what_is_to_be_sent_must_be_said(api: httpx.AsyncClient, path: str) -> None:
    refused = await api.post(path, json={"from": "2026-01-01T12:00:00Z"})
    assert refused.status_code == 400
    assert [each["path"] for each in refused.json()["details"]] == ["only"]


@pytest.mark.parametrize("to", ["2026-01-31T11:00:00Z", "2026-01-31T12:00:00Z"])
async def test_a_time_that_ends_before_it_begins_is_refused(
    api: httpx.AsyncClient, path: str, to: str
) -> None:
    refused = await api.post(path, json={**ALL, "from": "2026-01-31T12:00:00Z", "to": to})
    assert refused.status_code == 400
    details = [(each["path"], each["message"]) for each in refused.json()["details"]]
    assert details == [("from", "must be before to")]

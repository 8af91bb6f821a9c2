"""`POST …/retransmission`: a field that chooses messages has its effect, or is refused."""

from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from app.domain.catalogue.seek import Seek
from app.domain.message import NewRecord
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.tables import JobRow
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog

OFFSETS = [{"partition": 0, "offset": 1}]
VALUES: dict[str, Any] = {
    "only": "all",
    "from": "-6h",
    "to": "2026-01-31T12:00:00Z",
    "offsets": OFFSETS,
    "filter": {"type": "jsonpath", "path": "$.a", "matcher": "x"},
    "statusCodes": [400],
    "messageIds": ["m1"],
    "keys": ["k7"],
    "reason": "code:400",
    "again": True,
    "share": 1,
    "rate": 5,
    "retransmissionDate": "-6h",
}
# What is asked for, and which of the fields above it does not know.
REFUSED: list[tuple[dict[str, Any], set[str]]] = [
    ({"only": "discarded"}, {"offsets", "filter", "keys", "share", "rate"}),
    ({"only": "undelivered", "from": "-6h"}, {"offsets", "again"}),
    ({"only": "missing", "from": "-6h"}, {"statusCodes", "reason", "again"}),
    ({"only": "all", "from": "-6h"}, {"statusCodes", "reason", "again"}),
    (
        {"mode": "seek", "from": "-6h"},
        {
            "to", "filter", "statusCodes", "messageIds", "keys", "reason", "again", "share",
            "rate",
        },
    ),
    (
        {"retransmissionDate": "-6h"},
        {
            "only", "from", "to", "offsets", "filter", "statusCodes", "messageIds", "keys",
            "reason", "again", "share", "rate",
        },
    ),
]  # fmt: skip


@pytest.fixture
async def path(subscription: str, log: MemoryLog) -> str:
    await log.append("shop.orders", [NewRecord(value=b"%d" % n) for n in range(10)])
    return f"{subscription}/retransmission"


async def done_by(database: Database) -> tuple[int, Seek | None]:
    """How many jobs were requested, and where the subscription was moved to."""
    async with database.transaction() as session:
        jobs = await session.scalar(select(func.count()).select_from(JobRow))
        stored = await SubscriptionRepository(session).get("shop.orders", "billing")
    return jobs or 0, stored.seek


def said_of(field: str, answer: httpx.Response) -> str:
    """What a refusal has against the field."""
    if answer.status_code != httpx.codes.BAD_REQUEST:
        return ""
    return next((p["message"] for p in answer.json()["details"] if p["path"] == field), "")


async def test_a_field_of_another_way_is_refused_and_said_to_be_of_that(
    api: httpx.AsyncClient, path: str, database: Database, log: MemoryLog
) -> None:
    failed = []
    for asked, fields in REFUSED:
        for field in fields:
            refused = await api.post(path, json={**asked, field: VALUES[field]})
            if not said_of(field, refused).startswith("belongs to "):
                failed.append(f"{asked} with {field}: {refused.text[:150]}")
    assert not failed, "\n".join(failed)
    assert await done_by(database) == (0, None)
    assert len(log.records("shop.orders")) == 10
    refused = await api.post(path, json={"only": "discarded", "keys": ["k7"]})
    [problem] = refused.json()["details"]
    assert problem == {
        "path": "keys",
        "message": "belongs to only: all, undelivered and missing, not to only: discarded",
    }


async def test_a_field_that_is_not_known_may_have_been_meant_to_choose(
    api: httpx.AsyncClient, path: str, database: Database
) -> None:
    for asked, unknown in (
        ({"only": "discarded", "messageIDs": ["m1"]}, "messageIDs"),
        ({"only": "undelivered", "from": "-6h", "limit": 5}, "limit"),
        ({"only": "all", "offsets": [{**OFFSETS[0], "tooffset": 5}]}, "offsets.0.tooffset"),
        ({"mode": "seek", "from": "-6h", "share_": 1}, "share_"),
        ({"mode": "seek", "offsets": [{**OFFSETS[0], "toOffset": 5}]}, "offsets.0.toOffset"),
    ):
        refused = await api.post(path, json=asked)
        assert refused.status_code == httpx.codes.BAD_REQUEST, asked
        [problem] = refused.json()["details"]
        assert problem["path"] == unknown
        assert problem["message"].startswith("is not a known field")
    assert await done_by(database) == (0, None)
    # Nothing is said by a null.
    looked = await api.post(path, json={"only": "discarded", "keys": None, "dryRun": True})
    assert looked.status_code == httpx.codes.OK, looked.text


@pytest.mark.parametrize("by_query", [True, False])
async def test_a_dry_run_is_one_wherever_it_is_asked_for(
    api: httpx.AsyncClient, path: str, database: Database, *, by_query: bool
) -> None:
    where = f"{path}?dryRun=true" if by_query else path
    said = {} if by_query else {"dryRun": True}
    for asked in ({"mode": "seek", "from": "-6h"}, {"retransmissionDate": "-6h"}):
        for method in ("POST", "PUT") if "retransmissionDate" in asked else ("POST",):
            answer = await api.request(method, where, json=asked | said)
            assert answer.status_code == httpx.codes.OK, answer.text
    looked = await api.post(where, json={"only": "discarded"} | said)
    assert "messages" in looked.json()
    assert await done_by(database) == (0, None)
    requested = await api.post(where, json={"only": "all", "from": "-6h"} | said)
    assert (await api.get(requested.headers["Location"])).json()["dryRun"] is True


async def test_the_mode_seek_moves_a_subscription_to_a_time_or_to_offsets(
    api: httpx.AsyncClient, path: str, database: Database, log: MemoryLog
) -> None:
    ends = {
        each.index: bound.end
        for each, bound in (await log.bounds(await log.partitions("shop.orders"))).items()
    }
    moved = await api.post(path, json={"mode": "seek", "from": "-6h"})
    assert moved.status_code == httpx.codes.OK, moved.text
    assert [(each["partition"], each["offset"]) for each in moved.json()] == [(0, 0), (1, 0)]
    sent, seek = await done_by(database)
    assert seek is not None
    assert (sent, seek.offsets, seek.replaced) == (0, (0, 0), (None, None))
    # Suspended or not; and nowhere but where the log is.
    await api.put(f"{path.removesuffix('/retransmission')}/state", json="SUSPENDED")
    places = [{"partition": 1, "offset": 10_000}, {"partition": 0, "offset": 2}]
    moved = await api.post(path, json={"mode": "seek", "only": "all", "offsets": places})
    assert moved.json() == [
        {"topic": {"value": "shop.orders"}, "partition": 0, "offset": 2},
        {"topic": {"value": "shop.orders"}, "partition": 1, "offset": ends[1]},
    ]
    assert "Angelia-Applied" in moved.headers
    _, sought = await done_by(database)
    assert sought is not None
    assert sought.number > seek.number
    assert sought.offsets == (2, ends[1])


@for_each(
    ("asked", "path_", "says"),
    [
        ({}, "from", "must be given, or offsets"),
        ({"from": "-6h", "offsets": OFFSETS}, "from", "not both"),
        ({"from": "yesterday"}, "from", "must be a time like"),
        ({"offsets": OFFSETS}, "offsets", "there is none of partition 1"),
        ({"offsets": [*OFFSETS, {"partition": 7, "offset": 1}]}, "offsets", "no partition 7"),
        ({"offsets": OFFSETS * 2}, "offsets", "once"),
        ({"offsets": [{"partition": 0, "offset": -1}]}, "offsets.0.offset", "must be"),
        ({"offsets": []}, "offsets", "at least 1 item"),
        ({"from": "-6h", "only": "discarded"}, "only", "must be 'all'"),
        ({"from": "-6h", "dryRun": 1}, "dryRun", "must be true or false"),
    ],
)
async def test_a_move_that_cannot_be_made_moves_nothing(
    api: httpx.AsyncClient,
    path: str,
    database: Database,
    *,
    asked: dict[str, Any],
    path_: str,
    says: str,
) -> None:
    refused = await api.post(path, json={"mode": "seek", **asked})
    assert refused.status_code == httpx.codes.BAD_REQUEST, refused.text
    [problem] = refused.json()["details"]
    assert problem["path"] == path_
    assert says in problem["message"]
    assert await done_by(database) == (0, None)

from datetime import UTC, date, datetime

import httpx
import pytest

from app.storage.database import Database
from app.storage.tables import (
    KEPT,
    WRITING,
    ArchiveFolderRow,
    ArchivePieceRow,
    ArchivePositionRow,
)
from tests.cases import for_each
from tests.integration.storage.builders import NOON, TOPIC, add_topic

LAST_MS = 9_223_372_036_854_775_807


def a_folder(job: str, created_at: datetime, state: str = KEPT) -> ArchiveFolderRow:
    return ArchiveFolderRow(
        job_id=job, attempt=1, topic=TOPIC, topic_created_at=created_at, path=f"s3a://a/{job}",
        spans={"0": [0, 9]}, state=state, begun_at=NOON.replace(day=int(job)),
    )  # fmt: skip


def a_piece(job: str, partition: int = 0, last_ms: int = 2_000) -> ArchivePieceRow:
    return ArchivePieceRow(
        job_id=job, attempt=1, topic=TOPIC, day=date(2026, 1, 1), partition=partition,
        start=0, end=9, first_ms=1_000 + partition, last_ms=last_ms, messages=3, size=70,
    )  # fmt: skip


async def test_an_archive_has_the_folders_that_count_and_no_others(
    api: httpx.AsyncClient, database: Database
) -> None:
    async with database.transaction() as session:
        topic = await add_topic(session)
        other = await add_topic(session, "shop.refunds")
        assert topic.created_at is not None
        assert other.created_at is not None
        now = topic.created_at
        session.add_all([
            a_folder("1", now), a_folder("2", now), a_folder("3", now, WRITING),
            a_folder("4", datetime(2020, 1, 1, tzinfo=UTC)),
        ])  # fmt: skip
        await session.flush()
        session.add_all([a_piece("1"), a_piece("1", 1), a_piece("2", last_ms=LAST_MS),
                         a_piece("3"), a_piece("4")])  # fmt: skip
        session.add_all([
            ArchivePositionRow(topic=TOPIC, topic_created_at=now, partition=n, next_offset=9 - n)
            for n in (1, 0)
        ])  # fmt: skip
    found = (await api.get(f"/topics/{TOPIC}/archive")).json()
    assert found == {
        "messages": 9,
        "size": 210,
        "partitions": [{"partition": 0, "offset": 9}, {"partition": 1, "offset": 8}],
        "folders": [
            {
                "path": "s3a://a/2", "archivedAt": "2026-01-02T12:00:00+00:00",
                "messages": 3, "size": 70, "from": "1970-01-01T00:00:01+00:00",
                "to": "9999-12-31T23:59:59.999000+00:00",
            },
            {
                "path": "s3a://a/1", "archivedAt": "2026-01-01T12:00:00+00:00",
                "messages": 6, "size": 140, "from": "1970-01-01T00:00:01+00:00",
                "to": "1970-01-01T00:00:02+00:00",
            },
        ],
    }  # fmt: skip
    empty = {"messages": 0, "size": 0, "partitions": [], "folders": []}
    assert (await api.get("/topics/shop.refunds/archive")).json() == empty


async def test_a_topic_that_does_not_exist_has_no_archive(api: httpx.AsyncClient) -> None:
    answer = await api.get("/topics/shop.none/archive")
    assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_EXISTS")


@pytest.fixture
async def orders(database: Database) -> None:
    async with database.transaction() as session:
        await add_topic(session)


@pytest.mark.usefixtures("orders")
@for_each(
    ("body", "status", "path"),
    [
        ({"kind": "ARCHIVE", "topic": TOPIC}, 400, "topic"),
        ({"kind": "ARCHIVE", "from": "-6h"}, 400, "from"),
        ({"kind": "ARCHIVE"}, 202, None),
    ],
)
async def test_only_what_is_archived_is_asked_for(
    api: httpx.AsyncClient, body: dict[str, str], *, status: int, path: str | None
) -> None:
    answer = await api.post("/jobs", json=body)
    assert answer.status_code == status
    assert [each["path"] for each in answer.json().get("details", [])] == ([path] if path else [])


async def test_an_archive_of_a_topic_that_is_none_is_not_asked_for(api: httpx.AsyncClient) -> None:
    answer = await api.post("/jobs", json={"kind": "ARCHIVE", "topic": "shop.none"})
    assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_EXISTS")

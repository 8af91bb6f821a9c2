from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.api.schemas.job import job_body
from app.api.schemas.topic import changed_topic, new_topic, topic_read
from app.domain.archive import OfflineStorage, is_due
from app.domain.errors import ValidationFailedError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TOPIC = {"name": "shop.orders"}


@pytest.mark.parametrize(
    ("last", "now", "due"),
    [
        (None, NOON, True),
        (NOON, NOON + timedelta(minutes=59), False),
        (NOON + timedelta(minutes=59), NOON + timedelta(hours=1), True),
        (NOON - timedelta(seconds=1), NOON, True),
        (NOON + timedelta(days=1), NOON, False),
    ],
)
def test_the_archive_is_due_when_another_hour_has_begun(
    last: datetime | None, now: datetime, *, due: bool
) -> None:
    assert is_due(last, now) is due


@pytest.mark.parametrize(
    "given",
    [
        {"enabled": True, "retentionTime": {"duration": 0}},
        {"enabled": True, "retentionTime": {"duration": 36_501}},
        {"enabled": False, "retentionTime": {"duration": -1}},
        {"enabled": True},
    ],
)
def test_days_outside_of_their_range_are_refused_and_named(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        new_topic(TOPIC | {"offlineStorage": given}, strict=True)
    [problem] = refused.value.details
    assert problem.path == "offlineStorage.retentionTime.duration"


@pytest.mark.parametrize(
    ("given", "storage", "read"),
    [
        (
            {"enabled": True, "retentionTime": {"duration": 60, "infinite": False}},
            OfflineStorage(enabled=True, days=60),
            {"duration": 60, "infinite": False},
        ),
        (
            {"enabled": True, "retentionTime": {"duration": None, "infinite": True}},
            OfflineStorage(enabled=True, days=None),
            {"infinite": True},
        ),
        (None, OfflineStorage(), {"duration": 0, "infinite": False}),
    ],
)
def test_offline_storage_is_read_as_it_was_written(
    given: dict[str, Any] | None, storage: OfflineStorage, read: dict[str, Any]
) -> None:
    topic = new_topic(TOPIC | {"offlineStorage": given}, strict=True)
    assert topic.offline_storage == storage
    said = topic_read(topic).answered()["offlineStorage"]
    assert said == {"enabled": storage.enabled, "retentionTime": read}
    off = changed_topic(topic, {"offlineStorage": {"enabled": False}}, strict=True)
    assert off.offline_storage == OfflineStorage(enabled=False, days=storage.days)


@pytest.mark.parametrize(
    "given", [{"from": "-6h"}, {"to": "-1h"}, {"topic": "a.b", "subscription": "c"}]
)
def test_no_part_of_a_topic_is_archived_alone(given: dict[str, str]) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        job_body({"kind": "ARCHIVE", **given}, strict=True)
    assert refused.value.details[0].path in given

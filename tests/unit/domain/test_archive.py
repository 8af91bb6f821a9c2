from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.api.management.catalogue.topic_bodies import changed_topic, new_topic, topic_read
from app.api.management.insight.job_bodies import job_body
from app.domain.catalogue.offline_storage import OfflineStorage
from app.domain.errors import ValidationFailedError
from app.domain.insight.archive import is_due
from app.domain.insight.archived_offsets import Archived, ArchivedRun, without_gaps
from app.domain.replay.retransmission import OffsetSpan

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
        {"enabled": True, "retentionTime": {"duration": 36_501}},
        {"enabled": False, "retentionTime": {"duration": -1}},
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
        # Hermes' clients need not name a duration.
        *(
            (given, OfflineStorage(enabled=True, days=60), {"duration": 60, "infinite": False})
            for given in (
                {"enabled": True},
                {"enabled": True, "retentionTime": {"duration": 0}},
                {"enabled": True, "retentionTime": {"infinite": False}},
            )
        ),
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
        job_body({"kind": "ARCHIVE", **given})
    assert refused.value.details[0].path in given


@pytest.mark.parametrize(
    ("doubtful", "run", "start", "missed"),
    [
        # Retention took nothing of it, or nothing that was not read before.
        (None, None, 2, 0),
        (6, ArchivedRun(2, 6, 4), 2, 0),
        # The first two are gone; a gap in the middle; all that it took; a gap at its end.
        (6, ArchivedRun(4, 6, 2), 4, 2),
        (6, ArchivedRun(5, 6, 2), 5, 2),
        (6, None, 6, 4),
        (6, ArchivedRun(2, 5, 3), 6, 1),
        (10, None, 10, 8),
    ],
)
def test_what_retention_took_while_it_was_read_is_not_archived(
    doubtful: int | None, run: ArchivedRun | None, start: int, missed: int
) -> None:
    span = OffsetSpan(topic="shop.orders", partition=3, start=2, end=10)
    before = {} if doubtful is None else {3: doubtful}
    found = without_gaps(span, before, runs={} if run is None else {3: run})
    assert found == Archived(span=replace(span, start=start), missed=missed)

"""Where new subscriptions begin: what may be asked for, and where that is in a log."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from app.api.bodies.base import Ignored
from app.api.management.catalogue.subscription_bodies import (
    ignored_in_subscription,
    new_subscription,
)
from app.api.management.fields.start_position import beginning_of
from app.domain.catalogue.start_position import AHEAD_MAX, Beginning, Edge
from app.domain.errors import ValidationFailedError
from app.domain.message import NewRecord, Partition
from app.services.log_positions import begun_at
from tests.contract.logs import a_topic
from tests.fakes.memory_log import MemoryLog

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BODY = {"name": "billing", "endpoint": "http://h.test/"}
HOURLY, EMPTY = Partition("shop.hourly", 0), Partition("shop.empty", 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Edge.EARLIEST),
        ("latest", Edge.LATEST),
        ("-6h", NOON - 6 * HOUR),
        ("2026-01-01T11:00:00Z", NOON - HOUR),
        ("2026-01-01T13:00:00+02:00", NOON - HOUR),
        ("1767265200000", NOON - HOUR),
        ("2026-01-01T12:01:00Z", NOON + AHEAD_MAX),
    ],
)
def test_a_beginning_is_an_edge_of_the_log_or_a_time(text: str, expected: Beginning) -> None:
    assert beginning_of(text, now=NOON) == expected


@pytest.mark.parametrize("wrong", ["", "Earliest", "6h", "yesterday", "+6h", "2026-13-01"])
def test_what_is_neither_is_refused_beside_all_else_that_is_wrong(wrong: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        new_subscription("a.b", BODY | {"startFrom": wrong, "ordering": "?"}, strict=False)
    problems = {each.path: each.message for each in refused.value.details}
    assert problems.keys() == {"startFrom", "ordering"}
    assert all(form in problems["startFrom"] for form in ("earliest", "latest", "Z", "-6h"))


def test_a_time_to_come_is_refused() -> None:
    with pytest.raises(ValidationFailedError, match="startFrom"):
        beginning_of("2026-01-01T12:01:00.001Z", now=NOON)


def test_it_means_something_only_when_a_subscription_is_created() -> None:
    asked = BODY | {"startFrom": "-6h"}
    assert ignored_in_subscription(asked, new=True) == ()
    assert ignored_in_subscription(asked) == (Ignored("startFrom"),)


async def a_log(clock: list[int]) -> MemoryLog:
    """A partition with a message each hour since nine, the first of them gone; one with none."""
    log = MemoryLog(lambda: clock[0])
    for each in (HOURLY, EMPTY):
        await log.create_topic(a_topic(each.topic, partitions=1))
    for hour in (9, 10, 11):
        clock[0] = at(hour)
        await log.append(HOURLY.topic, [NewRecord(value=b"x")])
    log.trim(HOURLY, 1)
    clock[0] = at(12)
    return log


def at(hour: int) -> int:
    return int(NOON.replace(hour=hour).timestamp() * 1000)


@pytest.mark.parametrize(
    ("beginning", "expected"),
    [
        (Edge.EARLIEST, 1),
        (Edge.LATEST, 3),
        (NOON - 9 * HOUR, 1),
        (NOON - 2 * HOUR, 1),
        (NOON - HOUR, 2),
        (NOON, 3),
        (datetime.min.replace(tzinfo=UTC), 1),
    ],
)
async def test_history_begins_with_the_first_message_that_is_still_there_since_then(
    beginning: Beginning, expected: int
) -> None:
    assert await begun_at(await a_log([0]), [HOURLY, EMPTY], beginning) == {
        HOURLY: expected,
        EMPTY: 0,
    }


class Busy(MemoryLog):
    """A message comes between its two answers to one question, as it may in Kafka."""

    async def offsets_at(
        self, partitions: Collection[Partition], timestamp_ms: int
    ) -> Mapping[Partition, int]:
        ends = await self.bounds(partitions)
        found = await super().offsets_at(partitions, timestamp_ms)
        await self.append(EMPTY.topic, [NewRecord(value=b"new")])
        later = await self.bounds(partitions)
        return {p: later[p].end if at == ends[p].end else at for p, at in found.items()}


async def test_what_is_published_while_the_log_is_asked_is_not_passed_over() -> None:
    log = Busy(lambda: at(12))
    await log.create_topic(a_topic(EMPTY.topic, partitions=1))
    assert await begun_at(log, [EMPTY], NOON - HOUR) == {EMPTY: 0}

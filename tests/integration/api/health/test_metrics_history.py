"""Histories of metrics over HTTP."""

from datetime import UTC, datetime, timedelta

import httpx

from app.domain.metrics.attempts import AttemptTotals
from app.domain.metrics.samples import ATTEMPTS, DURATIONS
from app.services.metrics.history_recorder import HistoryRecorder
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.storage.builders import a_cursor, a_load, report


async def counted(database: Database, topic: str, *, delivered: int, timeouts: int) -> None:
    """A worker reports so many deliveries, all of 20 ms, and timeouts, all of 2 s."""
    numbers = dict.fromkeys(ATTEMPTS, 0) | {"timeouts": timeouts}
    durations = [0] * DURATIONS
    durations[2], durations[8] = delivered, timeouts
    totals = AttemptTotals(1, (*numbers.values(), *durations))
    async with database.transaction() as session:
        stored = await SubscriptionRepository(session).get(topic, "billing")
    cursor = a_cursor(stored.id, delivered=delivered, discarded=0, offset=5, end=5)
    await report(database, a_load(stored.id, attempts=totals), cursors=[cursor])


async def test_a_history_has_the_recorded_steps_and_the_current_one(
    api: httpx.AsyncClient, subscription: str, topic: str, database: Database, log: MemoryLog
) -> None:
    before = datetime.now(UTC) - timedelta(minutes=3)
    minute = before.replace(second=0, microsecond=0)
    await counted(database, topic, delivered=60, timeouts=2)
    await HistoryRecorder(database, log).record(minute)
    await counted(database, topic, delivered=65, timeouts=2)
    found = (await api.get(f"{subscription}/metrics/history")).json()
    first, last = found["points"]
    assert found["step"] == "minute"
    assert first == {
        "time": minute.isoformat(),
        "delivered": 60,
        "discarded": 0,
        "filtered": 0,
        "retries": 0,
        "failed": {
            "codes4xx": 0, "codes5xx": 0, "codesOther": 0, "timeouts": 2, "otherErrors": 0
        },
        "rate": round(62 / 60, 3),
        "outputRate": 1.5,
        "lag": 0,
        "latency": {"p50": 0.0178, "p95": 0.0247, "p99": 2.035},
    }  # fmt: skip
    assert last["delivered"] == 5
    metrics = (await api.get(f"{subscription}/metrics")).json()
    assert sum(each["delivered"] for each in found["points"]) == metrics["delivered"]
    of_topic = (await api.get(f"/topics/{topic}/metrics/history", params={"step": "day"})).json()
    assert sum(each["delivered"] for each in of_topic["points"]) == 65
    assert {each["published"] for each in of_topic["points"]} == {0}


@for_each(
    ("query", "field"),
    [
        ({"from": "tomorrow"}, "from"),
        ({"to": "-1y"}, "to"),
        ({"from": "-1h", "to": "-2h"}, "from"),
        ({"step": "week"}, "step"),
        ({"step": "minute", "from": "-90d"}, "step"),
    ],
)
async def test_what_cannot_be_shown_is_refused_by_its_field(
    api: httpx.AsyncClient, subscription: str, topic: str, query: dict[str, str], field: str
) -> None:
    for path in (subscription, f"/topics/{topic}"):
        refused = await api.get(f"{path}/metrics/history", params=query)
        assert refused.status_code == 400
        assert [each["path"] for each in refused.json()["details"]] == [field]


async def test_a_history_needs_a_topic_and_a_subscription(
    api: httpx.AsyncClient, topic: str
) -> None:
    for path in ("/topics/no.topic", "/topics/no.topic/subscriptions/x"):
        assert (await api.get(f"{path}/metrics/history")).status_code == 404
    path = f"/topics/{topic}/subscriptions/nobody/metrics/history"
    assert (await api.get(path)).json()["code"] == "SUBSCRIPTION_NOT_EXISTS"

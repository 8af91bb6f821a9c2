from dataclasses import replace
from typing import Any

import httpx
import pytest
from rich.console import Console

from angelia_client import NO_RETRIES, AsyncAngelia, Subscription, SubscriptionMetrics
from app.cli.commands.top import SortOrder, TopRow, TopView, in_order, look, table_of

ROW = TopRow(
    topic="shop.orders",
    subscription="billing",
    state="ACTIVE",
    rate=10.0,
    lag=5,
    inflight=1,
    retries=0.0,
    errors=0.0,
    undelivered=0,
    mode="NORMAL",
)
SUBSCRIPTION: dict[str, Any] = {
    "name": "billing",
    "topicName": "shop.orders",
    "endpoint": "http://example.com/",
    "description": "",
    "owner": {"source": "Plaintext", "id": "me"},
    "state": "ACTIVE",
    "subscriptionPolicy": {},
}
FIGURES: dict[str, Any] = {
    "delivered": 100,
    "discarded": 3,
    "filtered": 0,
    "volume": 1000,
    "inflight": 2,
    "lag": 7,
    "rate": 12.5,
    "throughput": 100.0,
    "timeouts": 1.0,
    "otherErrors": 0.5,
    "codes2xx": 12.0,
    "codes4xx": 0.25,
    "codes5xx": 0.125,
    "retries": 2.0,
}


def row_of(**figures: Any) -> TopRow:  # noqa: ANN401 - any figure
    return TopRow.of(Subscription.of(SUBSCRIPTION), SubscriptionMetrics.of(FIGURES | figures))


def shown(row: TopRow, *, limit: int = 10, problem: str = "") -> str:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(
            table_of([row, replace(row, subscription="other")], limit=limit, problem=problem)
        )
    return capture.get()


def test_a_row_has_all_that_failed_as_errors() -> None:
    row = row_of()
    assert row.errors == 1.0 + 0.5 + 0.25 + 0.125
    assert (row.rate, row.lag, row.undelivered, row.mode) == (12.5, 7, 3, "")


@pytest.mark.parametrize(
    ("mode", "circuit", "told"),
    [
        ("NORMAL", "CLOSED", "NORMAL"),
        ("SLOW", None, "SLOW"),
        ("NORMAL", "OPEN", "circuit OPEN"),
        ("HEARTBEAT", "HALF_OPEN", "circuit HALF_OPEN"),
    ],
)
def test_an_open_circuit_is_told_before_the_mode(mode: str, circuit: str | None, told: str) -> None:
    assert row_of(mode=mode, circuit=circuit).mode == told


@pytest.mark.parametrize(
    ("order", "first"),
    [
        (SortOrder.NAME, "a"),
        (SortOrder.LAG, "lag"),
        (SortOrder.RATE, "rate"),
        (SortOrder.ERRORS, "errors"),
        (SortOrder.UNDELIVERED, "undelivered"),
    ],
)
def test_the_largest_stands_first_and_equals_by_name(order: SortOrder, first: str) -> None:
    rows = [
        replace(ROW, subscription="lag", lag=9),
        replace(ROW, subscription="rate", rate=99.0),
        replace(ROW, subscription="errors", errors=9.0),
        replace(ROW, subscription="undelivered", undelivered=9),
        replace(ROW, subscription="b"),
        replace(ROW, subscription="a"),
    ]
    names = [row.subscription for row in in_order(rows, order)]
    assert names[0] == first
    rest = [name for name in names if name != first]
    assert rest == sorted(rest)


def test_the_table_says_how_many_there_are_and_what_is_wrong() -> None:
    assert "2 subscriptions, 1 shown" in shown(ROW, limit=1)
    assert "No API answers" in shown(ROW, problem="No API answers")


def test_nothing_in_a_name_moves_the_cursor() -> None:
    assert "\x1b" not in shown(replace(ROW, subscription="\x1b[2J"))


def gone(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("gone", request=request)


async def test_an_api_that_has_gone_is_told_and_no_end() -> None:
    what = TopView(topic=None, order=SortOrder.LAG, limit=1, every=1.0, as_json=False)
    async with (
        httpx.AsyncClient(transport=httpx.MockTransport(gone)) as http,
        AsyncAngelia(retries=NO_RETRIES, http=http) as client,
    ):
        told = await look(client, what)
    assert "No API answers" in str(told)

"""Times are taken alike wherever they are asked for."""

from typing import Any

import httpx
import pytest

from tests.cases import for_each

BILLING = "/topics/shop.orders/subscriptions/billing"
QUERIES = (
    ("/audit", "since", "until"),
    (f"{BILLING}/undelivered", "since", "until"),
    ("/topics/shop.orders/messages", "since", "until"),
)
BODIES: tuple[tuple[str, dict[str, Any]], ...] = (
    (f"{BILLING}/retransmission", {"only": "discarded"}),
    ("/jobs", {"kind": "UNDELIVERED_ANALYTICS"}),
)
TIMES = ("-1h", "-90s", "-2d", "1769860800000", "2026-01-31T12:00:00Z", "2026-01-31")


@pytest.mark.usefixtures("subscription")
@for_each("moment", TIMES)
async def test_queries_take_them_in_every_form(api: httpx.AsyncClient, moment: str) -> None:
    for path, since, until in QUERIES:
        answer = await api.get(path, params={since: moment, until: "-30s", "key": "k"})
        assert answer.status_code == 200, (path, answer.text)


@pytest.mark.usefixtures("subscription")
@for_each("moment", TIMES)
async def test_bodies_take_them_in_every_form(api: httpx.AsyncClient, moment: str) -> None:
    for path, body in BODIES:
        answer = await api.post(path, json=body | {"from": moment, "to": "-30s"})
        assert answer.is_success, (path, answer.text)


@pytest.mark.usefixtures("subscription")
async def test_what_is_no_time_is_told_all_the_forms(api: httpx.AsyncClient) -> None:
    refused = await api.get(f"{BILLING}/undelivered", params={"since": "yesterday"})
    assert refused.json()["details"] == [
        {
            "path": "since",
            "message": "must be a time like 2026-01-31T12:00:00Z, milliseconds since the epoch,"
            " or how long ago: -30s, -30m, -6h, -2d",
        }
    ]

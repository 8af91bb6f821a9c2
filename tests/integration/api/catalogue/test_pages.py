"""Lists that can grow, page by page: each thing once, in order, and no more than was asked for."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.config import Settings
from app.domain.health.alerts import Alert, AlertKind
from app.domain.health.indicators import Indicator, Problem
from app.domain.health.subscription_health import SubscriptionHealth
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.health.alerts import AlertRepository
from app.storage.health.subscription_health import SubscriptionHealthRepository
from tests.cases import for_each
from tests.fakes.keys import KEY

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NAMES = ("billing", "mail", "stock")
TOPICS = ("shop.a", "shop.b", "shop.c")
ANYWHERE = {"owner": {"id": "Shop"}}
WRONG = ({"after": "a/b/c/d"}, {"limit": "0"}, {"limit": "x"}, {"limit": "1001"})
LISTS = (
    "/topics/owner/Plaintext/Shop",
    "/subscriptions/owner/Plaintext/Shop",
    "/unhealthy?respectMonitoringSeverity=false",
    "/search/query?q=shop",
    "/alerts?active=false",
    "/topics/shop.a/subscriptions/billing/retransmissions",
)


@pytest.fixture
def settings() -> Settings:
    """Nobody looks at how they do in the meantime."""
    return Settings(secret_key=SecretStr(KEY), health_interval=300)


@pytest.fixture
async def shop(api: httpx.AsyncClient, database: Database) -> httpx.AsyncClient:
    for topic in TOPICS:
        (await api.post("/topics", json={"name": topic} | ANYWHERE)).raise_for_status()
        for name in NAMES:
            body = {"name": name, "endpoint": "http://shop.test/"} | ANYWHERE
            made = await api.post(f"/topics/{topic}/subscriptions", json=body)
            made.raise_for_status()
    await all_fail(database)
    for _ in range(5):
        path = "/topics/shop.a/subscriptions/billing/retransmission"
        asked = await api.post(path, json={"only": "all", "from": "-6h"})
        assert asked.status_code == httpx.codes.ACCEPTED, asked.text
    return api


async def all_fail(database: Database) -> None:
    """Each subscription is unhealthy, and had two alerts at one time."""
    problem = Problem(code=Indicator.UNREACHABLE, description="it is down")
    async with database.transaction() as session:
        for number, (topic, name) in enumerate((t, n) for t in TOPICS for n in NAMES):
            found = await SubscriptionRepository(session).get(topic, name)
            await SubscriptionHealthRepository(session).write(
                {found.id: SubscriptionHealth(problems=(problem,))}
            )
            raised = [
                Alert(
                    id=f"{kind.value}-{number}",
                    kind=kind,
                    subscription_id=found.id,
                    topic=topic,
                    subscription=name,
                    description="",
                    details={},
                    raised_at=NOON + timedelta(minutes=number // 2),
                    cleared_at=None,
                )
                for kind in (AlertKind.HEARTBEAT, AlertKind.SUSPENDED)
            ]
            await AlertRepository(session).raise_(raised)


async def pages(api: httpx.AsyncClient, url: str) -> AsyncIterator[list[Any]]:
    following: str | None = url
    while following:
        answer = (await api.get(following)).raise_for_status()
        yield items(answer)
        following = answer.links.get("next", {}).get("url")


def items(answer: httpx.Response) -> list[Any]:
    said = answer.json()
    found: list[Any] = said["results"] if isinstance(said, dict) else said
    return found


@for_each("limit", [1, 2, 3, 5, 1000])
async def test_pages_have_all_there_is_each_once_and_in_order(
    shop: httpx.AsyncClient, limit: int
) -> None:
    for url in LISTS:
        whole = items(await shop.get(url))
        assert len(whole) >= 3, url
        joined = f"{url}{'&' if '?' in url else '?'}limit={limit}"
        read = [page async for page in pages(shop, joined)]
        assert [each for page in read for each in page] == whole, url
        assert all(len(page) <= limit for page in read), url


async def test_pages_of_a_search_tell_how_much_there_is_in_all(shop: httpx.AsyncClient) -> None:
    first = await shop.get("/search/query?q=shop&limit=2")
    second = await shop.get(first.links["next"]["url"])
    assert first.json()["totalCount"] == second.json()["totalCount"] == 12


async def test_what_is_unhealthy_is_read_page_by_page_as_text_too(
    shop: httpx.AsyncClient,
) -> None:
    url = "/unhealthy?respectMonitoringSeverity=false&limit=8"
    text = {"Accept": "text/plain"}
    first = await shop.get(url, headers=text)
    second = await shop.get(first.links["next"]["url"], headers=text)
    assert [len(page.text.splitlines()) for page in (first, second)] == [8, 1]
    assert "next" not in second.links


async def test_pages_that_cannot_be_are_refused(shop: httpx.AsyncClient) -> None:
    for url in LISTS:
        for query in WRONG:
            refused = await shop.get(url.partition("?")[0], params=query)
            said = (refused.status_code, refused.json()["details"][0]["path"])
            assert said == (400, next(iter(query))), (url, query)

"""Secrets by REST: taken, kept, and never shown."""

from typing import Any

import httpx
import pytest

from app.config import Settings
from app.domain.catalogue.headers import Header
from app.main import create_app
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving

MASK = "*****"
STRICT = {"Prefer": "handling=strict"}
ENDPOINT = "http://user:s3cret-password@subscriber.test/"
HEADERS = [
    {"name": "X-Api-Key", "value": "s3cret-value"},
    {"name": "X-Two", "value": "s3cret-a"},
    {"name": "x-two", "value": "s3cret-b"},
]
SHOWN = [{"name": each["name"], "value": MASK} for each in HEADERS]


def keyless(url: str) -> Settings:
    """Settings of a server that was given no key."""
    values: dict[str, Any] = {"database_url": url, "auth": "off"}
    return Settings(**values)


async def headers_of(database: Database) -> list[tuple[str, str]]:
    async with database.transaction() as session:
        stored = await SubscriptionRepository(session).get("shop.orders", "billing")
    assert stored.endpoint == ENDPOINT
    return [_pair(each) for each in stored.headers]


def _pair(header: Header) -> tuple[str, str]:
    return header.name, header.value


@pytest.fixture
async def secretive(api: httpx.AsyncClient, topic: str) -> str:
    """The path of a subscription with secrets."""
    body = {"name": "billing", "endpoint": ENDPOINT, "headers": HEADERS}
    made = await api.post(f"/topics/{topic}/subscriptions", json=body, headers=STRICT)
    assert made.status_code == 201
    assert made.json()["headers"] == SHOWN
    assert "s3cret" not in made.text
    return f"/topics/{topic}/subscriptions/billing"


async def test_what_is_read_can_be_sent_back_and_changes_nothing(
    api: httpx.AsyncClient, secretive: str, database: Database
) -> None:
    read = await api.get(secretive)
    assert read.json()["headers"] == SHOWN
    assert "s3cret" not in read.text
    assert (await api.put(secretive, json=read.json(), headers=STRICT)).json() == read.json()
    assert await headers_of(database) == [_pair(Header(**each)) for each in HEADERS]


async def test_a_mask_keeps_the_value_of_that_name_whatever_is_around_it(
    api: httpx.AsyncClient, secretive: str, database: Database
) -> None:
    wanted = [
        {"name": "X-TWO", "value": MASK},
        {"name": "X-New", "value": "new"},
        {"name": "X-Two", "value": MASK},
    ]
    answer = await api.patch(secretive, json={"headers": wanted})
    assert [each["value"] for each in answer.json()["headers"]] == [MASK] * 3
    assert await headers_of(database) == [
        ("X-TWO", "s3cret-a"),
        ("X-New", "new"),
        ("X-Two", "s3cret-b"),
    ]


@for_each(
    ("headers", "path"),
    [
        ([{"name": "X-Unknown", "value": MASK}], "headers.0.value"),
        ([*SHOWN, {"name": "X-Two", "value": MASK}], "headers.3.value"),
        (
            [{"name": "X-Api-Key", "value": MASK}, {"name": "x-api-key", "value": MASK}],
            "headers.1.value",
        ),
    ],
)
async def test_a_mask_that_keeps_nothing_is_refused(
    api: httpx.AsyncClient, secretive: str, *, headers: list[dict[str, str]], path: str
) -> None:
    refused = await api.put(secretive, json={"headers": headers})
    assert refused.status_code == 400
    said = "is masked, as answers show it: give the real one, or leave the header out"
    assert refused.json()["details"] == [{"path": path, "message": said}]


async def test_a_mask_is_no_value_to_begin_with(api: httpx.AsyncClient, topic: str) -> None:
    body = {"name": "billing", "endpoint": ENDPOINT, "headers": SHOWN[:1]}
    refused = await api.post(f"/topics/{topic}/subscriptions", json=body)
    assert refused.json()["details"][0]["path"] == "headers.0.value"


async def test_a_server_without_a_key_says_what_to_set(
    postgres_url: str, topic: str, log: MemoryLog
) -> None:
    app = create_app(keyless(postgres_url), database_url=postgres_url, log=given(log))
    async with serving(app) as api:
        body = {"name": "billing", "endpoint": ENDPOINT}
        refused = await api.post(f"/topics/{topic}/subscriptions", json=body)
        assert (refused.status_code, refused.json()["code"]) == (503, "SECRET_KEY_MISSING")
        assert "ANGELIA_SECRET_KEY" in refused.json()["message"]
        assert "openssl rand -base64 32" in refused.json()["message"]
        body = {"name": "billing", "endpoint": "http://subscriber.test/"}
        assert (await api.post(f"/topics/{topic}/subscriptions", json=body)).status_code == 201


async def test_a_subscription_whose_key_is_gone_says_so_and_can_be_suspended_and_deleted(
    postgres_url: str, secretive: str, log: MemoryLog
) -> None:
    app = create_app(keyless(postgres_url), database_url=postgres_url, log=given(log))
    async with serving(app) as api:
        read = (await api.get(secretive)).json()
        assert "is stored under the key" in read["stateReason"]
        assert read["headers"] == SHOWN
        refused = await api.put(secretive, json={"description": "new"})
        assert (refused.status_code, refused.json()["code"]) == (503, "SECRET_UNREADABLE")
        suspended = await api.put(f"{secretive}/state", json="SUSPENDED")
        assert (suspended.status_code, suspended.json()["state"]) == (200, "SUSPENDED")
        assert (await api.delete(secretive)).status_code == 200

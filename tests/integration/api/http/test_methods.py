from collections.abc import AsyncIterator

import httpx
import pytest

from app.config import Settings
from app.main import create_app
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving


@pytest.fixture
async def publishing(
    settings: Settings, postgres_url: str, log: MemoryLog
) -> AsyncIterator[httpx.AsyncClient]:
    """A process that only publishes."""
    app = create_app(settings, database_url=postgres_url, only="publish", log=given(log))
    async with serving(app) as client:
        yield client


@for_each(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/topics", "GET, HEAD, POST"),
        ("PATCH", "/topics/shop.orders", "DELETE, GET, HEAD, POST, PUT"),
        ("OPTIONS", "/topics/shop.orders/subscriptions/s", "DELETE, GET, HEAD, PATCH, PUT"),
        ("DELETE", "/topics/shop.orders/subscriptions/s/state", "GET, HEAD, POST, PUT"),
    ],
)
async def test_a_refused_method_is_told_all_that_are_allowed(
    api: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    refused = await api.request(method, path)
    assert (refused.status_code, refused.headers["Allow"]) == (405, allowed)


async def test_a_process_that_only_publishes_allows_that_alone(
    publishing: httpx.AsyncClient,
) -> None:
    refused = await publishing.get("/topics/shop.orders")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")
    assert refused.json()["code"] == "OTHER"


@for_each("path", ["/status/ping", "/topics", "/topics/no.such"])
async def test_head_is_get_without_the_body(api: httpx.AsyncClient, path: str) -> None:
    got, head = await api.get(path), await api.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    assert head.headers["Content-Length"] == got.headers["Content-Length"]

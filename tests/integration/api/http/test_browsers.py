"""No page may use a service that needs no keys, whatever route it asks; all else goes on."""

import re
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from app.api.openapi.document import document
from app.config import Settings
from app.main import create_app
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.guarded import guarded
from tests.integration.api.server import given, serving

FRIEND = "https://console.example.com"
REBOUND = {"Host": "rebound.test"}
PAGE = {"Origin": "https://evil.test", "Content-Type": "text/plain"}


@pytest.fixture
async def api(postgres_url: str, log: MemoryLog) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(auth="off", cors_origins=(FRIEND,), host_names=("angelia.test",))
    app = create_app(settings, database_url=postgres_url, log=given(log))
    async with serving(app) as client:
        # What is refused before any route is in no route's document.
        client.event_hooks = {}
        yield client


def everything() -> Iterator[tuple[str, str]]:
    """Every operation that is documented, and what no route has."""
    for path, methods in document()["paths"].items():
        for method in methods:
            yield method.upper(), re.sub(r"\{\w+\}", "shop.orders", path)
    yield from (("POST", "/topics/shop.orders/"), ("OPTIONS", "/topics"), ("GET", "/nowhere"))
    yield from (("GET", "/docs"), ("GET", "/openapi.json"), ("HEAD", "/topics"))


@pytest.mark.usefixtures("topic")
async def test_no_route_is_a_pages(api: httpx.AsyncClient, log: MemoryLog) -> None:
    for method, path in everything():
        rebound = await api.request(method, path, headers=REBOUND)
        assert rebound.status_code == 421, (method, path)
        page = await api.request(method, path, headers=PAGE)
        assert page.status_code == 403, (method, path)
    assert log.records("shop.orders") == []
    published = await api.post("/topics/shop.orders", content=b"{}")
    assert published.status_code == 201


@pytest.mark.usefixtures("topic")
async def test_origins_and_names_that_are_configured_are_let_in(api: httpx.AsyncClient) -> None:
    said = {"Host": "angelia.test", "Origin": FRIEND, "Sec-Fetch-Site": "cross-site"}
    asks = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "x"}
    preflight = await api.options("/topics/shop.orders", headers=said | asks)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == FRIEND
    published = await api.post("/topics/shop.orders", content=b"{}", headers=said)
    assert published.status_code == 201
    assert published.headers["access-control-allow-origin"] == FRIEND


async def test_where_keys_are_needed_they_say_who_asks(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        named = {"Host": "angelia.example.com", "Origin": "https://elsewhere.test"}
        answer = await api.http.get("/topics", headers=api.admin | named)
        assert answer.status_code == 200

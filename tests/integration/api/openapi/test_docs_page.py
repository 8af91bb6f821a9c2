"""`/docs`, over real HTTP: all of it is ours, and nothing in it is what a strict policy refuses."""

import re
from collections.abc import AsyncIterator, Iterator
from html.parser import HTMLParser

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from app.api.management.application import management_app
from app.api.openapi.document import serve_document
from tests.integration.api.guarded import guarded
from tests.integration.api.server import serving

MEDIA = {".js": "text/javascript", ".css": "text/css", ".json": "application/json"}


class Page(HTMLParser):
    """What a page names, and what stands in it that should stand in a file."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.inline: list[str] = []
        self._in: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in = tag
        for name, value in attrs:
            if name in {"src", "href"} and value != "data:,":
                self.names.append(value or "")
            if name == "style" or name.startswith("on"):
                self.inline.append(name)

    def handle_data(self, data: str) -> None:
        if self._in in {"script", "style"} and data.strip():
            self.inline.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._in = None if tag == self._in else self._in


@pytest.fixture(params=["", "/angelia"])
async def docs(request: pytest.FixtureRequest) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """The API as a proxy has it: at the root, or under a prefix."""
    app = management_app()
    serve_document(app)
    mounted = Starlette(routes=[Mount(request.param, app)]) if request.param else app
    async with serving(mounted) as client:
        yield client, f"{request.param}/docs"


def fetched(script: str) -> Iterator[str]:
    yield from re.findall(r'fetch\("([^"]+)"\)', script)


async def test_all_that_the_page_names_is_answered_here(
    docs: tuple[httpx.AsyncClient, str],
) -> None:
    client, path = docs
    page = await client.get(path)
    assert page.status_code == 200, page.text
    assert page.headers["content-type"].startswith("text/html")
    names = Page(page.text).names
    start = await client.get(str(page.url.join("docs/start.js")))
    names += fetched(start.text)
    assert {"docs/swagger-ui-bundle.js", "docs/swagger-ui.css", "openapi.json"} <= {*names}
    for name in names:
        asset = await client.get(page.url.join(name))
        assert asset.status_code == 200, name
        assert asset.headers["content-type"].startswith(MEDIA[name[name.rindex(".") :]]), name
        assert asset.content


async def test_a_strict_policy_refuses_nothing_of_the_page(
    docs: tuple[httpx.AsyncClient, str],
) -> None:
    client, path = docs
    page = await client.get(path)
    assert Page(page.text).inline == []
    policy = page.headers["content-security-policy"]
    scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
    assert scripts == "script-src 'self'"
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


async def test_the_page_is_found_with_a_slash_behind_it_too(
    docs: tuple[httpx.AsyncClient, str],
) -> None:
    client, path = docs
    page = await client.get(f"{path}/", follow_redirects=True)
    assert (page.status_code, page.url.path) == (200, path)


async def test_what_is_shown_is_of_the_release_that_the_document_is_of(
    docs: tuple[httpx.AsyncClient, str],
) -> None:
    client, path = docs
    script = (await client.get(f"{path}/swagger-ui-bundle.js")).text
    document = (await client.get(path.removesuffix("docs") + "openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    # Before its version 5, Swagger UI shows no document of 3.1.
    [version] = re.findall(r'PACKAGE_VERSION:"(\d+)\.[^"]*"', script)
    assert int(version) >= 5


async def test_it_takes_no_key(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        for path in ("/docs", "/docs/swagger-ui.css", "/openapi.json"):
            assert (await api.http.get(path)).status_code == 200
        wrong = {"Authorization": "Bearer ang_wrong"}
        assert (await api.http.get("/docs", headers=wrong)).status_code == 200
        console = (await api.http.get("/console")).json()
        assert (await api.http.get(console["dashboard"]["docs"])).status_code == 200


async def test_a_process_that_only_publishes_has_none() -> None:
    async with serving(management_app(status_only=True)) as client:
        assert (await client.get("/docs")).status_code == 404

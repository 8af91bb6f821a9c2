"""A reader of the console: follows links and sends forms as a browser without scripts does."""

import asyncio
import html
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin

import httpx

from tests.integration.api.console.commands import (
    commands_of,
    curl_problem_of,
    curls_of,
    form_curls_of,
    problem_of,
    request_of,
)

HTML = {"Accept": "text/html"}
PATIENCE_S = 60.0


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.token = ""
        self.fields: dict[str, str] = {}
        # The field whose text follows.
        self._open = ""
        # The choice field whose options follow.
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.tags.append((tag, named))
        if named.get("name") == "form_token":
            self.token = named["value"]
        self._take(tag, named)

    def handle_data(self, data: str) -> None:
        if self._open:
            self.fields[self._open] += data

    def handle_endtag(self, tag: str) -> None:
        if tag in {"textarea", "option"}:
            self._open = ""

    def _take(self, tag: str, named: dict[str, str]) -> None:
        # A browser sends no field that has no name.
        name = named.get("name", "")
        if tag == "select":
            self._select = name
        elif tag == "textarea" or (tag == "option" and "selected" in named):
            self._begin(name if tag == "textarea" else self._select)
        elif name and tag == "input" and (named.get("type") != "checkbox" or "checked" in named):
            self.fields[name] = named.get("value", "")

    def _begin(self, name: str) -> None:
        self._open = name
        if name:
            self.fields[name] = ""


@dataclass(slots=True, kw_only=True)
class Seen:
    """A page as a browser got it."""

    response: httpx.Response
    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    token: str = ""
    # What a browser would send of all forms of the page.
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.response.text

    @property
    def words(self) -> str:
        """What a reader sees, without tags."""
        body = re.sub(r"<(script|style)\b.*?</\1>", "", self.text, flags=re.DOTALL)
        return " ".join(re.sub(r"<[^>]*>", " ", body).split())

    def attributes(self, tag: str, name: str) -> list[str]:
        return [named[name] for each, named in self.tags if each == tag and name in named]


def seen(response: httpx.Response) -> Seen:
    """The page of a response. AssertionError if it shows a command that would be refused."""
    parser = _Parser()
    if response.headers.get("content-type", "").startswith("text/html"):
        parser.feed(response.text)
        problems = {line: problem_of(line) for line in commands_of(response.text)}
        problems |= {line: curl_problem_of(line) for line in curls_of(response.text)}
        assert not any(problems.values()), problems
    return Seen(response=response, tags=parser.tags, token=parser.token, fields=parser.fields)


@dataclass(slots=True, kw_only=True)
class Browser:
    """Looks at pages of `http`, whose cookies it keeps."""

    http: httpx.AsyncClient
    prefix: str = "/console"

    async def look(self, path: str) -> Seen:
        """The page, after redirects."""
        return seen(
            await self.http.get(f"{self.prefix}{path}", headers=HTML, follow_redirects=True)
        )

    async def send(self, page: str, action: str = "", /, **fields: str) -> Seen:
        """Send a form of `page` to the relative link `action`, and follow where it leads."""
        shown = await self.look(page)
        url = urljoin(str(shown.response.url), action)
        sent = {"form_token": shown.token, **fields}
        return seen(await self.http.post(url, data=sent, headers=HTML, follow_redirects=True))

    async def run(self, page: str, blanks: Mapping[str, str] | None = None) -> list[httpx.Response]:
        """Send what the commands for the forms of a page send.

        Each of `blanks` is a part of a command that the reader replaces by the value.
        """
        lines = form_curls_of((await self.look(page)).text)
        assert lines, page
        for blank, text in (blanks or {}).items():
            assert any(blank in line for line in lines), (blank, lines)
            lines = [line.replace(blank, text) for line in lines]
        answers = [await self.http.send(request_of(line)) for line in lines]
        # Only a worker can send a ping, and these tests have none.
        refused = [each.text for each in answers if each.is_error and "NO_WORKER" not in each.text]
        assert not refused, (page, refused)
        return answers

    async def confirm(self, shown: Seen, **fields: str) -> Seen:
        """Send the form of a page as it is filled in, but for `fields`."""
        return seen(
            await self.http.post(
                shown.response.url,
                data={**shown.fields, **fields},
                headers=HTML,
                follow_redirects=True,
            )
        )

    async def follow(self, shown: Seen, label: str) -> Seen:
        """Follow the only link of a page with this text."""
        [link] = re.findall(rf'<a [^>]*href="([^"]*)"[^>]*>{label}</a>', shown.text)
        url = urljoin(str(shown.response.url), html.unescape(link))
        return seen(await self.http.get(url, headers=HTML, follow_redirects=True))

    async def sign_in(self, key: str) -> Seen:
        return await self.send("/sign-in", key=key)


async def event_of(http: httpx.AsyncClient, path: str, wanted: str) -> str:
    """The first data of a live page in which `wanted` is."""
    async with following(http, path) as follower:
        return await follower.until(wanted)


@dataclass(slots=True)
class Follower:
    """A live page that a reader has open."""

    lines: AsyncIterator[str]

    async def until(self, wanted: str) -> str:
        """The next data of the page in which `wanted` is."""
        async with asyncio.timeout(PATIENCE_S):
            async for line in self.lines:
                if wanted in line:
                    return line
        raise AssertionError(f"the stream ended without {wanted}")


@asynccontextmanager
async def following(http: httpx.AsyncClient, path: str) -> AsyncIterator[Follower]:
    """A reader who has the live page open."""
    live = {"Accept": "text/event-stream"}
    async with http.stream("GET", path, headers=live, timeout=PATIENCE_S) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream"), stream.status_code
        yield Follower(stream.aiter_lines())

"""Requests that a web page could have sent, where callers need no keys."""

from collections.abc import Mapping, MutableMapping
from typing import Any

import orjson
import pytest
from starlette.types import Receive, Scope, Send

from app.api.browsers import BrowserGuard
from app.domain.network.own_hosts import OwnHosts

OURS = "127.0.0.1:8090"
FRIEND = "https://console.example.com"
LOCAL = OwnHosts(bound="127.0.0.1", machine="box")


async def served(scope: Scope, receive: Receive, send: Send) -> None:
    del scope, receive
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def asked(
    headers: Mapping[str, str], method: str = "POST", *, origins: tuple[str, ...] = (FRIEND,)
) -> tuple[int, dict[str, Any]]:
    """The status, and the body, of the answer to a request with these headers."""
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("nothing is read before it is known who asks")

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": "/topics/a.b", "headers": raw}
    await BrowserGuard(served, hosts=LOCAL, origins=origins)(scope, receive, send)
    return sent[0]["status"], orjson.loads(sent[1]["body"] or b"{}")


@pytest.mark.parametrize("host", [OURS, "localhost", "LocalHost:1", "[::1]:8090", "127.0.0.1:"])
async def test_a_request_to_this_machine_is_answered(host: str) -> None:
    assert await asked({"Host": host}) == (204, {})


@pytest.mark.parametrize(
    "host",
    [
        *("evil.test", "evil.test:8090", "", ":8090", "127.0.0.1.evil.test", "[::1].evil.test"),
        *("localhost@evil.test", "[evil.test]", "192.168.1.7", "localhost:80:80", "\xff"),
    ],
)
async def test_a_request_to_a_name_that_is_not_ours_is_refused(host: str) -> None:
    status, body = await asked({"Host": host}, "GET")
    assert (status, body["code"]) == (421, "OTHER")
    assert "ANGELIA_HOST_NAMES" in body["message"]


CROSS_SITE = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Content-Type": "text/plain"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    # Another port of this machine is of the same site, and somebody else's all the same.
    {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:3000"},
    {"Origin": "https://evil.test"},
    {"Origin": "http://127.0.0.1:3000"},
    {"Origin": "http://evil.test/127.0.0.1:8090"},
    {"Origin": "null"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://evil.test", "Sec-Fetch-Site": "none"},
    {"Origin": ""},
    {"Origin": f"{FRIEND}.evil.test"},
]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("page", CROSS_SITE)
async def test_a_page_of_others_may_change_nothing(page: dict[str, str], method: str) -> None:
    status, body = await asked({"Host": OURS} | page, method)
    assert (status, body["code"]) == (403, "PERMISSION_DENIED")
    assert "ANGELIA_CORS_ORIGINS" in body["message"]


@pytest.mark.parametrize(
    "page",
    [
        {},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8090"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "null"},
        # A proxy in front sends its own Host.
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://angelia.example.com"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://127.0.0.1:8090"},
        {"Sec-Fetch-Site": "cross-site", "Origin": FRIEND},
    ],
)
async def test_our_own_page_may_and_those_of_origins_that_are_configured(
    page: dict[str, str],
) -> None:
    assert await asked({"Host": OURS} | page) == (204, {})


async def test_where_pages_of_all_origins_may_they_all_do() -> None:
    for page in CROSS_SITE:
        assert await asked({"Host": OURS} | page, origins=("*",)) == (204, {})
    assert (await asked({"Host": "evil.test"}, origins=("*",)))[0] == 421


async def test_a_link_to_us_may_be_followed_and_is_not_put_into_a_page() -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    for shown, status in (("document", 204), ("iframe", 403), ("image", 403)):
        headers = {"Host": OURS, "Sec-Fetch-Dest": shown} | link
        assert (await asked(headers, "GET"))[0] == status

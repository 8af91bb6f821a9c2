"""Publishers whose HTTP client, or whose proxy, asks for another protocol first."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

import httpx
import pytest

from app.api.server.connection import BoundedConnection
from app.config import Settings
from app.main import create_app
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.http.test_connections import answers, connected
from tests.integration.api.server import given, serving
from tests.servers.nginx import nginx_before

UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
JAVA = Path(__file__).parent / "java" / "Publisher.java"


async def java(*arguments: str) -> list[str]:
    """The lines that the program prints, which must end well."""
    process = await asyncio.create_subprocess_exec(
        "java", "-XX:TieredStopAtLevel=1", *arguments, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode().splitlines()


async def test_javas_own_client_publishes_with_its_defaults(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    said = await java(str(JAVA), str(api.base_url).rstrip("/"), topic)
    assert said == ["POST 201", "PUT 200", "POST 201", "POST 201", "GET 200"]
    bodies = {b'"first"', b'"second"', b'"third"', b'"fourth"'}
    assert {record.value for record in log.records(topic)} == bodies
    assert (await api.get(f"/topics/{topic}")).json()["description"] == "by Java"


@pytest.mark.parametrize("upgrade", [b"h2c", b"websocket"])
@pytest.mark.usefixtures("topic")
@for_each(
    ("line", "body", "status"),
    [
        (b"POST /topics/shop.orders", b"[1]", b"201"),
        (b"POST /topics/shop.orders/batch", b"[1]", b"201"),
        (b"POST /topics", b'{"name": "shop.other"}', b"201"),
        (b"PUT /topics/shop.orders", b'{"name": "shop.orders"}', b"200"),
        (b"POST /topics/no.such", b"[1]", b"404"),
        (b"GET /status/ping", b"", b"200"),
        (b"GET /no/such", b"", b"404"),
        (b"DELETE /topics/shop.orders", b"", b"200"),
    ],
)
async def test_every_route_serves_a_request_that_asks_for_another_protocol(
    api: httpx.AsyncClient, line: bytes, body: bytes, status: bytes, *, upgrade: bytes
) -> None:
    fields = (
        UPGRADE.replace(b"h2c", upgrade) + b"Host: localhost\r\nContent-Type: application/json\r\n"
    )
    request = b"%s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n" % (line, fields, len(body)) + body
    async with connected(api) as (reader, writer):
        writer.write(request + b"GET /status/ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await answers(reader, 2) == [status, b"200"]


class SharedConnection(BoundedConnection):
    """Counts the connections that there were."""

    made: ClassVar[int] = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        type(self).made += 1
        super().connection_made(transport)


@pytest.fixture
async def shared(
    settings: Settings, postgres_url: str, log: MemoryLog
) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(settings, database_url=postgres_url, log=given(log))
    async with serving(app, http=SharedConnection) as client:
        yield client


@pytest.mark.parametrize("connection", ['"upgrade"', "$connection_upgrade"])
async def test_behind_a_proxy_one_caller_gets_nothing_of_another(
    shared: httpx.AsyncClient, log: MemoryLog, tmp_path: Path, *, connection: str
) -> None:
    for name in ("shop.mine", "shop.yours"):
        (await shared.post("/topics", json={"name": name})).raise_for_status()
    # With its body left out, this one would wait for the next caller's request as its own body.
    trap = b"POST /topics/shop.mine HTTP/1.1\r\nHost: localhost\r\nContent-Length: 150\r\n\r\n"
    upgrading = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AA"}
    server = f"{shared.base_url.host}:{shared.base_url.port}"
    made = SharedConnection.made
    async with (
        nginx_before(server, tmp_path, connection=connection) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as mine,
        httpx.AsyncClient(base_url=url, timeout=60) as yours,
    ):
        for number in range(5):
            sent = await mine.post("/topics/shop.mine", content=trap, headers=upgrading)
            # It is read as a body, and so found to be no JSON.
            assert (sent.status_code, sent.json()["details"][0]["path"]) == (400, "message")
            key = {"Authorization": "Bearer secret", "Idempotency-Key": f"mine-{number}"}
            answer = await yours.post("/topics/shop.yours", content=b"%d" % number, headers=key)
            assert (answer.status_code, answer.headers["Hermes-Message-Id"]) == (
                201,
                f"mine-{number}",
            )
    assert log.records("shop.mine") == []
    assert {record.value for record in log.records("shop.yours")} == {b"0", b"1", b"2", b"3", b"4"}
    assert SharedConnection.made - made == 1

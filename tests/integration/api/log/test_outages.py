import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from app.config import Settings
from app.domain.catalogue.topic import Ack
from app.domain.message import NewRecord
from app.log.interface import Position
from app.main import create_app
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving
from tests.integration.api.slow_answers import answer_of, readiness
from tests.servers.postgres import PostgresServer

DEADLINE_S = 60.0


class SlowLog(MemoryLog):
    """A log that answers appends only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()
        self.appended = asyncio.Event()
        self.given_up = asyncio.Event()

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        self.asked.set()
        try:
            await self.answers.wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        positions = await super().append(topic, records, ack=ack)
        self.appended.set()
        return positions


async def test_a_log_that_is_down_is_a_503_and_the_api_stays_up(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    log.go_down()
    refused = await api.post(f"/topics/{topic}", content=b"1")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert refused.json()["code"] == "SENDING_TO_KAFKA_TIMEOUT"
    assert "Hermes-Message-Id" in refused.headers
    assert (await api.get("/status/ping")).text == "UP"
    assert (await api.get("/status/health")).text == "UP"
    ready = await readiness(api, is_ready=False)
    assert ready.status_code == 503
    down = "the log in memory is down"
    assert ready.json() == {
        "status": "NOT_READY",
        "parts": {
            "log": False,
            "logWritable": False,
            "database": True,
            "migrations": True,
            "datacenter": True,
        },
        "waitingFor": {"log": down, "logWritable": down},
    }
    log.come_back()
    assert (await api.post(f"/topics/{topic}", content=b"1")).status_code == 201
    await readiness(api, is_ready=True)


async def test_a_log_that_does_not_answer_is_a_503_in_time_and_stores_nothing_later(
    settings: Settings, postgres_url: str
) -> None:
    log = SlowLog()
    app = create_app(settings, database_url=postgres_url, log=given(log))
    async with serving(app) as api:
        (await api.post("/topics", json={"name": "shop.orders"})).raise_for_status()
        refused = await api.post("/topics/shop.orders", content=b'"late"')
        assert (refused.status_code, refused.json()["code"]) == (503, "SENDING_TO_KAFKA_TIMEOUT")
        assert log.given_up.is_set()
        log.answers.set()
        assert (await api.post("/topics/shop.orders", content=b'"again"')).status_code == 201
    assert [record.value for record in log.records("shop.orders")] == [b'"again"']


async def test_a_log_that_answers_and_takes_nothing_is_said_not_to_be_writable(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    log.refusing.add(topic)
    assert (await api.post(f"/topics/{topic}", content=b"1")).status_code == 503
    ready = await readiness(api, is_ready=False)
    assert (ready.status_code, ready.json()["status"]) == (503, "NOT_READY")
    parts = ready.json()["parts"]
    assert (parts["log"], parts["logWritable"]) == (True, False)
    log.refusing.clear()
    assert (await api.post(f"/topics/{topic}", content=b"1")).status_code == 201
    assert (await readiness(api, is_ready=True)).json()["parts"]["logWritable"]


async def test_a_message_that_the_log_refuses_is_a_400_and_the_log_is_writable(
    api: httpx.AsyncClient, topic: str, log: MemoryLog
) -> None:
    log.compacted.add(topic)
    refused = await api.post(f"/topics/{topic}", content=b"1")
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    assert "without a key" in refused.json()["message"]
    keyed = await api.post(f"/topics/{topic}", content=b"1", headers={"Partition-Key": "k"})
    assert keyed.status_code == 201
    assert (await readiness(api, is_ready=True)).json()["parts"]["logWritable"]


async def test_a_client_that_goes_away_does_not_cut_its_append_short(
    settings: Settings, postgres_url: str
) -> None:
    log = SlowLog()
    app = create_app(settings, database_url=postgres_url, log=given(log))
    async with serving(app) as api:
        (await api.post("/topics", json={"name": "shop.orders"})).raise_for_status()
        posting = asyncio.create_task(api.post("/topics/shop.orders", content=b"1"))
        async with asyncio.timeout(DEADLINE_S):
            await log.asked.wait()
        posting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await posting
        log.answers.set()
        async with asyncio.timeout(DEADLINE_S):
            await log.appended.wait()
    assert [record.value for record in log.records("shop.orders")] == [b"1"]


async def test_known_topics_take_messages_while_the_database_is_down(
    settings: Settings, postgres_server: PostgresServer
) -> None:
    log = MemoryLog()
    app = create_app(settings, database_url=postgres_server.url, log=given(log))
    async with serving(app) as api:
        (await api.post("/topics", json={"name": "shop.orders"})).raise_for_status()
        assert (await api.post("/topics/shop.orders", content=b"1")).status_code == 201
        postgres_server.stop()
        assert (await api.post("/topics/shop.orders", content=b"2")).status_code == 201
        unknown = await api.post("/topics/shop.others", content=b"1")
        assert (unknown.status_code, unknown.json()["code"]) == (503, "STORAGE_UNAVAILABLE")
        management = await api.get("/topics")
        assert (management.status_code, management.headers["Retry-After"]) == (503, "1")
        ready = (await api.get("/status/ready")).json()["parts"]
        assert ready == {
            "log": True,
            "logWritable": True,
            "database": False,
            "migrations": False,
            "datacenter": True,
        }
        postgres_server.start()
        await readiness(api, is_ready=True)
        assert (await api.get("/topics")).json() == ["shop.orders"]
        unknown = await answer_of(lambda: api.post("/topics/shop.others", content=b"1"))
        assert unknown.status_code == 404


async def test_starts_while_the_database_hangs_and_recovers_by_itself(
    settings: Settings, postgres_server: PostgresServer
) -> None:
    postgres_server.freeze()
    app = create_app(settings, database_url=postgres_server.url, log=given(MemoryLog()))
    async with serving(app) as api:
        assert (await api.get("/status/ping")).text == "UP"
        assert (await api.get("/topics")).status_code == 503
        postgres_server.thaw()
        await readiness(api, is_ready=True)
        assert (await api.post("/topics", json={"name": "shop.orders"})).status_code == 201
        assert (await api.post("/topics/shop.orders", content=b"1")).status_code == 201


async def test_the_process_answers_on_the_embedded_log_and_ends_when_told_to(
    postgres_url: str, tmp_path: Path, unused_port: int
) -> None:
    environment = {
        **os.environ,
        "ANGELIA_DATABASE_URL": postgres_url,
        "ANGELIA_HOME": str(tmp_path),
        "ANGELIA_PORT": str(unused_port),
        "ANGELIA_AUTH": "off",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app", env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{unused_port}"
        transport = httpx.AsyncHTTPTransport(retries=8)
        async with httpx.AsyncClient(base_url=url, transport=transport, timeout=DEADLINE_S) as api:
            await readiness(api, is_ready=True)
            (await api.post("/topics", json={"name": "shop.orders"})).raise_for_status()
            published = await api.post("/topics/shop.orders", content=b"1")
            assert published.status_code == 201
            body = {"name": "billing", "endpoint": "http://h.test/"}
            created = await api.post("/topics/shop.orders/subscriptions", json=body)
            assert created.status_code == 201
            assert (await api.get("/topics/shop.orders/metrics")).json()["published"] == 1
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

from collections.abc import AsyncIterator
from typing import Final

import httpx
import pytest
from pydantic import SecretStr

from app.config import Settings
from app.log.interface import MessageLog
from app.main import create_app
from tests.contract.harness import Harness, KafkaHarness, PostgresHarness
from tests.fakes.keys import KEY
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.guarded import Guarded, guarded
from tests.integration.api.server import given, serving
from tests.servers.ports import free_port

# To read settings takes 2.5 ms of CPU time. A copy is as good, and each test has its own: settings
# remember what was made of them.
_SETTINGS: Final = Settings(secret_key=SecretStr(KEY))


@pytest.fixture
def settings() -> Settings:
    return _SETTINGS.model_copy()


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture(params=["embedded", "kafka"])
async def real_log(request: pytest.FixtureRequest, postgres_url: str) -> AsyncIterator[MessageLog]:
    """Either of the logs that the service runs on, empty.

    A module whose `log` is this one runs its tests on both, instead of on the log in memory.
    """
    harness: Harness = PostgresHarness(postgres_url)
    if request.param == "kafka":
        harness = KafkaHarness(request.getfixturevalue("kafka_broker").bootstrap)
    async with harness.opened() as opened:
        yield opened


@pytest.fixture
async def api(
    settings: Settings, postgres_url: str, log: MessageLog
) -> AsyncIterator[httpx.AsyncClient]:
    """The whole API on a real database, and a log in memory unless a module has another."""
    async with serving(create_app(settings, database_url=postgres_url, log=given(log))) as client:
        yield client


@pytest.fixture
async def guarded_api(postgres_url: str) -> AsyncIterator[Guarded]:
    """The whole API with keys for its callers."""
    async with guarded(postgres_url) as api:
        yield api


@pytest.fixture
async def topic(api: httpx.AsyncClient) -> str:
    """A topic of two partitions."""
    body = {"name": "shop.orders", "partitions": 2, "maxMessageSize": 2048}
    (await api.post("/topics", json=body)).raise_for_status()
    return "shop.orders"


@pytest.fixture
async def subscription(api: httpx.AsyncClient, topic: str) -> str:
    """The path of a subscription of that topic."""
    path = f"/topics/{topic}/subscriptions"
    body = {
        "name": "billing",
        "endpoint": "http://user:secret@subscriber.test/",
        "supportTeam": "B",
    }
    (await api.post(path, json=body)).raise_for_status()
    return f"{path}/billing"


@pytest.fixture
def unused_port() -> int:
    """A port that nothing listens on, and nobody gets by chance."""
    return free_port()

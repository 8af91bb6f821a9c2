from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from angelia_client import AsyncAngelia
from app.config import Settings
from app.main import create_app
from tests.fakes.keys import KEY
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving


@pytest.fixture
async def url(postgres_url: str) -> AsyncIterator[str]:
    """The whole API on a real database, and a log in memory."""
    settings = Settings(secret_key=SecretStr(KEY), auth="off")
    app = create_app(settings, database_url=postgres_url, log=given(MemoryLog()))
    async with serving(app) as http:
        yield str(http.base_url)


@pytest.fixture
async def angelia(url: str) -> AsyncIterator[AsyncAngelia]:
    async with AsyncAngelia(url) as client:
        yield client

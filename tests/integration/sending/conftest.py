import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fakes.authority import Authority
from tests.fakes.loops import LOOPS


class Wire(NamedTuple):
    """How a server listens, and whom its clients trust."""

    server: ssl.SSLContext | None = None
    ca_file: Path | None = None


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return LOOPS


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=["http", "https"])
def wire(request: pytest.FixtureRequest, authority: Authority) -> Wire:
    """In the clear, and by TLS."""
    if request.param == "http":
        return Wire()
    return Wire(authority.server("127.0.0.1"), authority.ca_file)


@pytest.fixture(autouse=True)
async def nothing_fails_unseen() -> AsyncIterator[None]:
    """What a callback raises is only logged by a loop; here it fails the test."""
    unseen: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unseen.append(context))
    yield
    assert unseen == []

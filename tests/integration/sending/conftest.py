import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from tests.fakes.loops import LOOPS


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return LOOPS


@pytest.fixture(autouse=True)
async def nothing_fails_unseen() -> AsyncIterator[None]:
    """What a callback raises is only logged by a loop; here it fails the test."""
    unseen: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unseen.append(context))
    yield
    assert unseen == []

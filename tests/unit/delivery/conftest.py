import asyncio
from collections.abc import Callable, Mapping

from tests.fakes.loops import LOOPS


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return LOOPS

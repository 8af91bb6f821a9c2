"""The event loops on which API processes and workers can run."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import uvloop

LOOPS: Final[Mapping[str, Callable[[], asyncio.AbstractEventLoop]]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}

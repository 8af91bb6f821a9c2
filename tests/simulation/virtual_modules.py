"""Substitutes for the modules of clocks, random numbers and sockets, for code of the product.

The product calls the standard library for clocks and random numbers at many places. In a
simulation, code of the product gets the modules below instead. asyncio, structlog and all other
libraries keep the real modules.
"""

import asyncio
import datetime as real_datetime  # noqa: ICN001 - beside ours
import random as real_random
import secrets as real_secrets
import socket as real_socket
import time as real_time
import uuid as real_uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from types import ModuleType
from typing import Any, Final, Self, cast

import aiohappyeyeballs as real_happyeyeballs

from tests.simulation.virtual_loop import START_S, Accepts, VirtualLoop


def _loop() -> VirtualLoop | None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None  # no loop runs while modules are imported
    return loop if isinstance(loop, VirtualLoop) else None


def _dice() -> real_random.Random:
    loop = _loop()
    return real_random.Random(0) if loop is None else loop.random


def monotonic() -> float:
    loop = _loop()
    return START_S if loop is None else loop.time()


def wall_s() -> float:
    loop = _loop()
    return START_S if loop is None else loop.wall_s()


def time_ns() -> int:
    return int(wall_s() * 1e6) * 1_000


def random() -> float:
    return _dice().random()


def token_bytes(size: int = 32) -> bytes:
    return _dice().randbytes(size)


def token_hex(size: int = 32) -> str:
    return token_bytes(size).hex()


def uuid4() -> real_uuid.UUID:
    return real_uuid.UUID(bytes=token_bytes(16), version=4)


class _IsDatetime(type):
    """Lets instances of the real `datetime` count as instances of `Datetime`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, real_datetime.datetime)


class Datetime(real_datetime.datetime, metaclass=_IsDatetime):
    """The class `datetime` with the virtual clock. It makes objects of the real class."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: ANN401 - with any arguments
        made: Any = real_datetime.datetime(*args, **kwargs)  # noqa: DTZ001 - the caller's
        return cast("Self", made)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        moment: Any = real_datetime.datetime.fromtimestamp(wall_s(), tz or UTC)
        return cast("Self", moment)


def getaddrinfo(host: str, port: object, **_options: object) -> list[tuple[Any, ...]]:
    loop = _loop()
    assert loop is not None
    assert loop.network is not None
    return [(None, None, None, "", (address, port)) for address in loop.network.look_up(host)]


async def start_connection(infos: Sequence[Any], **_options: object) -> Accepts:
    loop = _loop()
    assert loop is not None
    assert loop.network is not None
    return await loop.network.connect(infos[0][4][:2])


def _like(real: ModuleType, **ours: object) -> ModuleType:
    module = ModuleType(real.__name__, real.__doc__)
    vars(module).update({name: each for name, each in vars(real).items() if name[:2] != "__"})
    vars(module).update(ours)
    return module


SUBSTITUTES: Final[Mapping[str, ModuleType]] = {
    "time": _like(
        real_time,
        monotonic=monotonic,
        perf_counter=monotonic,
        thread_time=lambda: START_S,
        time=wall_s,
        time_ns=time_ns,
    ),
    "datetime": _like(real_datetime, datetime=Datetime),
    "random": _like(real_random, random=random),
    "secrets": _like(real_secrets, token_bytes=token_bytes, token_hex=token_hex),
    "socket": _like(real_socket, getaddrinfo=getaddrinfo),
    "uuid": _like(real_uuid, uuid4=uuid4),
    "aiohappyeyeballs": _like(real_happyeyeballs, start_connection=start_connection),
}

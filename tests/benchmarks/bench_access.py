"""What access control costs a publication: a key that is known, none, and one that is wrong."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from app.api.access import token_of
from app.domain.access.keys import ApiKey, Mode, Scope
from app.domain.catalogue.changes import LastChange
from app.domain.catalogue.topic import Topic
from app.domain.errors import AccessError
from app.services.access.authorization import Gate
from app.services.access.keys import KeyService
from app.services.access.known_keys import KnownKeys
from app.storage.access.keys import AccessState
from app.storage.database import open_database
from tests.benchmarks.cores import MEASURED, on_cores
from tests.benchmarks.key_flood import Flood, Lines, Route
from tests.benchmarks.percentiles import percentile
from tests.e2e.service import Service

KEYS = 10_000
CHECKS = 100_000
WRONG_RATE = 10_000
SECONDS = 2.0
ROUNDS = 3
TOPIC = Topic(name="shop.orders")


def token(number: int) -> bytes:
    return f"ang_{number:012x}_{'s' * 43}".encode()


async def load(last: LastChange | None) -> AccessState | None:
    """As many keys as there may be; afterwards, nothing new."""
    if last is not None:
        return None
    scopes = (Scope.parse("publish:shop.*"),)
    keys = [
        ApiKey(id=f"{n:012x}", name="shop", scopes=scopes, digest=sha256(token(n)).digest())
        for n in range(KEYS)
    ]
    return AccessState(last=LastChange(1, None), mode=Mode.READ_WRITE, keys=keys)


def checking(gate: Gate, header: bytes | None) -> Callable[[], Awaitable[None]]:
    async def check() -> None:
        caller = await gate.caller(token_of(header))
        gate.require(caller, TOPIC)

    return check


async def microseconds(check: Callable[[], Awaitable[None]]) -> float:
    """CPU for each check, refusals included."""
    began = time.process_time()
    for _ in range(CHECKS):
        try:
            await check()
        except AccessError:
            continue
    return (time.process_time() - began) / CHECKS * 1e6


async def at_once(_seconds: float) -> None:
    """No pause: what is measured is CPU."""


async def nothing() -> None:
    """What the measuring costs."""


async def test_a_check_of_a_key_costs_a_microsecond_or_two() -> None:
    keys = KnownKeys(load, pause=at_once)
    await keys.refresh()
    gate, off = Gate(keys, controlled=True), Gate(keys, controlled=False)
    base = min([await microseconds(nothing) for _ in range(3)])
    forged = token(7)[:-1] + b"t"
    for name, check in {
        "a known key": checking(gate, b"Bearer " + token(7)),
        "a wrong key": checking(gate, b"Bearer " + forged),
        "no key": checking(gate, None),
        "access not controlled": checking(off, None),
    }.items():
        cost = min([await microseconds(check) for _ in range(3)]) - base
        print(f"{name:24} {cost:6.2f} µs of CPU a check, of {KEYS} keys")


class Caller(NamedTuple):
    """Somebody with a right key, who asks one thing after the other."""

    url: str
    key: str
    route: Route
    # By a new connection each time, from the address that the wrong keys come from.
    anew: bool = False

    def asks(self, seconds: float) -> list[float]:
        """How long each answer took, in milliseconds."""
        latencies: list[float] = []
        end = time.monotonic() + seconds
        with httpx.Client(base_url=self.url, headers=bearer(self.key), timeout=30) as client:
            # Of fewer there are no percentiles.
            while time.monotonic() < end or len(latencies) < 2:
                began = time.perf_counter()
                self._ask(client)
                latencies.append((time.perf_counter() - began) * 1000)
        return latencies

    def _ask(self, client: httpx.Client) -> None:
        headers = {"Connection": "close"} if self.anew else {}
        if self.route is Route.PUBLISH:
            answer = client.post("/topics/shop.orders", content=b"1", headers=headers)
        else:
            answer = client.get("/topics/shop.orders", headers=headers)
        answer.raise_for_status()


SHAPES = [(lines, route) for lines in Lines for route in Route]


@pytest.mark.parametrize(("lines", "wrong"), SHAPES, ids=lambda each: each.value)
async def test_wrong_keys_do_not_keep_right_ones_waiting(
    on_embedded_log: Mapping[str, str], logs: Path, lines: Lines, wrong: Route
) -> None:
    async with guarded_service(on_embedded_log, logs) as (service, key):
        url = str(service.http.base_url)
        flood = Flood(service.port, lines, wrong, WRONG_RATE, SECONDS)
        print(f"\n{wrong} with wrong keys by {lines} connections:")
        for right, anew in product(Route, (False, True)):
            caller = Caller(url, key, right, anew)
            calm_ms, flooded_ms, floods = [], [], []
            for _ in range(ROUNDS):
                calm_ms += await asyncio.to_thread(caller.asks, SECONDS)
                asking = asyncio.to_thread(caller.asks, SECONDS)
                latencies, flooded = await asyncio.gather(asking, flood.run())
                flooded_ms += latencies
                floods.append(flooded)
            tell(f"{right}{', each by a new connection' if anew else ''}", calm_ms, flooded_ms)
            sent = statistics.median(each.sent for each in floods)
            refused = statistics.median(each.refused for each in floods)
            print(f"    beside {sent:.0f} wrong keys/s sent, {refused:.0f}/s answered")


def tell(what: str, calm_ms: list[float], flooded_ms: list[float]) -> None:
    """How much longer right keys take."""
    for percent in (50, 99):
        calm, flooded = percentile(calm_ms, percent), percentile(flooded_ms, percent)
        times = flooded / calm
        print(f"  {what}: p{percent} {calm:.2f} ms alone, {flooded:.2f} ms: {times:.2f} times")


@asynccontextmanager
async def guarded_service(
    configuration: Mapping[str, str], logs: Path
) -> AsyncIterator[tuple[Service, str]]:
    """An API that asks for keys, on a core of its own, and its first key."""
    configuration = {**configuration, "ANGELIA_AUTH": "keys"}
    async with open_database(configuration["ANGELIA_DATABASE_URL"]) as database:
        made = await KeyService(database).create_first()
        assert made is not None
    async with Service(configuration, logs) as service:
        with on_cores(MEASURED):
            await service.api()
        service.http.headers.update(bearer(made.token))
        (await service.http.post("/topics", json={"name": "shop.orders"})).raise_for_status()
        yield service, made.token


def bearer(key: str) -> dict[str, str]:
    """The header of a key."""
    return {"Authorization": f"Bearer {key}"}

"""What access control costs a publication: a key that is known, none, and one that is wrong."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path

import httpx

from app.api.access import token_of
from app.domain.access import ApiKey, Mode, Scope
from app.domain.errors import AccessError
from app.domain.topic import Topic
from app.services.access import Gate
from app.services.keys import KeyService
from app.services.known_keys import KnownKeys
from app.storage.access import AccessState
from app.storage.database import open_database
from tests.benchmarks.cores import MEASURED, on_cores
from tests.benchmarks.key_flood import flood
from tests.benchmarks.percentiles import percentile
from tests.e2e.service import Service

KEYS = 10_000
CHECKS = 100_000
WRONG_RATE = 10_000
SECONDS = 3.0
ROUNDS = 3
TOPIC = Topic(name="shop.orders")


def token(number: int) -> bytes:
    return f"ang_{number:012x}_{'s' * 43}".encode()


async def load(number: int) -> AccessState | None:
    """As many keys as there may be; afterwards, nothing new."""
    if number == 1:
        return None
    scopes = (Scope.parse("publish:shop.*"),)
    keys = [
        ApiKey(id=f"{n:012x}", name="shop", scopes=scopes, digest=sha256(token(n)).digest())
        for n in range(KEYS)
    ]
    return AccessState(number=1, mode=Mode.READ_WRITE, keys=keys)


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


def publish_for(url: str, key: str, seconds: float) -> list[float]:
    """Latencies in milliseconds of publications one after the other."""
    latencies = []
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}) as client:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.perf_counter()
            client.post("/topics/shop.orders", content=b"1").raise_for_status()
            latencies.append((time.perf_counter() - began) * 1000)
    return latencies


async def test_wrong_keys_do_not_keep_right_ones_waiting(
    on_embedded_log: Mapping[str, str], logs: Path
) -> None:
    configuration = {**on_embedded_log, "ANGELIA_AUTH": "keys"}
    async with open_database(configuration["ANGELIA_DATABASE_URL"]) as database:
        made = await KeyService(database).create_first()
        assert made is not None
    async with Service(configuration, logs) as service:
        with on_cores(MEASURED):
            await service.api()
        service.http.headers["Authorization"] = f"Bearer {made.token}"
        (await service.http.post("/topics", json={"name": "shop.orders"})).raise_for_status()
        url = str(service.http.base_url)
        calm_ms, flooded_ms, refused = [], [], []
        for _ in range(ROUNDS):
            calm_ms += await asyncio.to_thread(publish_for, url, made.token, SECONDS)
            publishing = asyncio.to_thread(publish_for, url, made.token, SECONDS)
            flooding = flood("127.0.0.1", service.port, rate=WRONG_RATE, seconds=SECONDS)
            latencies, rate = await asyncio.gather(publishing, flooding)
            flooded_ms += latencies
            refused.append(rate)
    for percent in (50, 99):
        calm, flooded = percentile(calm_ms, percent), percentile(flooded_ms, percent)
        print(
            f"p{percent}: {calm:.2f} ms alone, {flooded:.2f} ms beside"
            f" {statistics.median(refused):.0f} wrong keys/s: {flooded / calm:.2f} times"
        )

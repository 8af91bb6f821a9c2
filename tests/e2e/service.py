"""The service as it runs for users: its processes, and its REST API to talk to them."""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from angelia_client.requests import verification
from app.domain.errors import UnavailableError
from tests.fakes.egress import ALLOW_LOOPBACK
from tests.fakes.subscriber import Subscriber
from tests.servers.ports import free_port
from tests.servers.warm import WORKER, WarmParent, WarmProcess, warm

PATIENCE_S = 90.0
CONCURRENT_PUBLISHERS = 16
# Between two looks at something that tells nobody when it changes.
LOOK_EVERY_S = 0.05
# A worker that hands over a partition waits so long for answers, less a little. The subscribers of
# the tests are in this process: what they answer later is rightly sent again.
LATE_S = 2.5
# What a worker logs of partitions that it had and that others may have by now.
LOST = '"to": "Lost"'


@dataclass(slots=True)
class Process:
    """One process of the service, and what it wrote."""

    running: WarmProcess
    log: Path

    @property
    def pid(self) -> int:
        return self.running.pid

    async def kill(self) -> None:
        """End it as kill -9 does."""
        self.running.kill()
        await self.running.ended()

    async def stop(self) -> int:
        """End it as an operator does; its exit code."""
        self.running.terminate()
        async with asyncio.timeout(PATIENCE_S):
            return await self.running.ended()


class Beat:
    """How late this loop was at most: the receivers of a test are on it."""

    def __init__(self) -> None:
        self.late_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._next()

    def stop(self) -> None:
        self._timer.cancel()

    def _next(self) -> None:
        due = self._loop.time() + LOOK_EVERY_S
        self._timer = self._loop.call_later(LOOK_EVERY_S, self._beat, due)

    def _beat(self, due: float) -> None:
        self.late_s = max(self.late_s, self._loop.time() - due)
        self._next()


@dataclass(slots=True)
class Service:
    """An API and any number of workers with one configuration."""

    configuration: Mapping[str, str]
    logs: Path
    # What its processes are forked from, with the code that they run.
    parent: WarmParent = field(default_factory=warm)
    port: int = field(default_factory=free_port)
    processes: list[Process] = field(default_factory=list)
    # Messages whose publication was not acknowledged at first: the log may have them twice.
    doubtful: set[str] = field(default_factory=set)
    _client: httpx.AsyncClient | None = None
    _beat: Beat | None = None

    async def __aenter__(self) -> Self:
        # Before the beat: to wait for it would hold up the loop, and be taken for a busy machine.
        await asyncio.to_thread(self.parent.wait_until_ready)
        self._beat = Beat()
        limits = httpx.Limits(max_connections=CONCURRENT_PUBLISHERS)
        self._client = httpx.AsyncClient(
            base_url=self.url,
            timeout=30,
            limits=limits,
            trust_env=False,
            verify=verification(self.url),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.http.aclose()
        self.beat.stop()
        for process in self.processes:
            await process.kill()
        if error is not None:
            self._show_logs()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def http(self) -> httpx.AsyncClient:
        assert self._client is not None
        return self._client

    @property
    def beat(self) -> Beat:
        assert self._beat is not None
        return self._beat

    # ---- processes ------------------------------------------------------------------------------

    async def migrate(self) -> None:
        """Bring the database to the tables of its version."""
        process = await self._start("app.cli.main", "migrate")
        assert await process.running.ended() == 0

    async def api(self) -> Process:
        """Start the API and wait until it is ready."""
        process = await self._start("app")
        await eventually(self._is_ready)
        return process

    async def worker(self) -> Process:
        """Start a worker."""
        return await self._start("workers")

    async def real_worker(self) -> Process:
        """Start a worker that has imported only what a real one imports, to measure its memory."""
        return await self._start("workers", parent=warm(WORKER))

    async def workers(self, count: int) -> Process:
        """Start a command that keeps so many workers running."""
        return await self._start("app.cli.main", "worker", "--processes", str(count))

    async def _start(
        self, module: str, *arguments: str, parent: WarmParent | None = None
    ) -> Process:
        log = self.logs / f"{len(self.processes)}-{module}.log"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ANGELIA_")}
        environment |= {
            "ANGELIA_PORT": str(self.port),
            "ANGELIA_ALLOW_PRIVATE_ENDPOINTS": ALLOW_LOOPBACK,
            # For the children of what is started.
            "PYTHONPATH": str(self.parent.root),
            **self.configuration,
        }
        with log.open("wb") as sink:
            written = sink.fileno()
            running = (parent or self.parent).start(
                module, *arguments, environment=environment, output=written, errors=written
            )
        process = Process(running, log)
        self.processes.append(process)
        return process

    async def _is_ready(self) -> bool:
        try:
            return (await self.http.get("/status/ready")).is_success
        except httpx.TransportError:
            return False

    def _show_logs(self) -> None:
        for process in self.processes:
            tail = process.log.read_text(errors="replace").splitlines()[-40:]
            sys.stderr.write("\n".join([f"---- {process.log.name}", *tail, ""]))

    # ---- REST -----------------------------------------------------------------------------------

    async def topic(self, name: str, **settings: Any) -> str:  # noqa: ANN401 - any JSON
        created(await self.http.post("/topics", json={"name": name, **settings}))
        return name

    async def subscribe(
        self,
        topic: str,
        name: str,
        endpoint: str,
        **policy: Any,  # noqa: ANN401 - any JSON
    ) -> str:
        """Create a subscription; its path."""
        body = {
            "name": name,
            "endpoint": endpoint,
            "owner": {"source": "Plaintext", "id": "tests"},
            # A test process that is busy for a second must not look like a subscriber that hangs.
            "subscriptionPolicy": {
                "rate": 100_000,
                "requestTimeout": 20_000,
                # The backlog of a test is drained at once.
                "adaptiveRate": False,
                **policy,
            },
        }
        created(await self.http.post(f"/topics/{topic}/subscriptions", json=body))
        return f"/topics/{topic}/subscriptions/{name}"

    async def publish(self, topic: str, body: bytes, **headers: str) -> str:
        """Publish one message; its id."""
        return await self._published(self.http, topic, body, headers=headers)

    async def _published(
        self, http: httpx.AsyncClient, topic: str, body: bytes, *, headers: Mapping[str, str]
    ) -> str:
        """Publish as publishers do: again, under the same id, what the log was too late for."""
        path, given = f"/topics/{topic}", dict(headers)
        async with asyncio.timeout(PATIENCE_S):
            answer = await http.post(path, content=body, headers=given)
            while answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                given["Idempotency-Key"] = answer.headers["Hermes-Message-Id"]
                self.doubtful.add(given["Idempotency-Key"])
                answer = await http.post(path, content=body, headers=given)
        return created(answer).headers["Hermes-Message-Id"]

    async def publish_all(
        self, topic: str, bodies: Iterable[tuple[bytes, str]]
    ) -> dict[str, bytes]:
        """Publish bodies with their partition keys, many at once; the bodies by message id."""
        queue, published = iter(bodies), dict[str, bytes]()

        async def publisher() -> None:
            # A client of its own: one with many connections spends its time in choosing one.
            async with httpx.AsyncClient(
                base_url=self.url,
                timeout=self.http.timeout,
                trust_env=False,
                verify=verification(self.url),
            ) as http:
                for body, key in queue:
                    own_id = await self._published(
                        http, topic, body, headers={"Partition-Key": key}
                    )
                    published[own_id] = body

        async with asyncio.TaskGroup() as publishers:
            for _ in range(CONCURRENT_PUBLISHERS):
                publishers.create_task(publisher())
        return published

    def assert_once(self, came: Iterable[str], published: Iterable[str]) -> None:
        """Each of these messages came, by id, and nothing else; none twice, if nobody was late."""
        counts = Counter(came)
        assert counts.keys() == set(published)
        assert self.stood_still() or counts.total() == len(counts)

    def stood_still(self) -> bool:
        """Whether the log was too late for a publisher, or a process so late that it lost its part.

        What was published twice then, or was in the air, rightly comes twice.
        """
        logs = (each.log.read_text(errors="replace") for each in self.processes)
        late = self.doubtful or self.beat.late_s > LATE_S
        return bool(late) or any(LOST in log for log in logs)

    async def set_state(self, subscription: str, state: str) -> httpx.Response:
        response = await self.http.put(f"{subscription}/state", json=state)
        response.raise_for_status()
        return response

    async def applied(self, subscription: str) -> None:
        """Wait until the workers have applied all that was changed of it so far."""

        async def is_applied() -> bool:
            changed = await self.http.patch(subscription, json={})
            return bool(changed.raise_for_status().headers["Angelia-Applied"] == "true")

        await eventually(is_applied)

    async def metrics(self, subscription: str) -> dict[str, Any]:
        response = await self.http.get(f"{subscription}/metrics")
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    async def accounted(self, subscription: str, count: int) -> dict[str, Any]:
        """Wait until `count` messages are delivered or discarded; the metrics then."""

        metrics: dict[str, Any] = {}

        async def all_there() -> bool:
            metrics.update(await self.metrics(subscription))
            return bool(metrics["delivered"] + metrics["discarded"] >= count)

        await eventually(all_there)
        return metrics

    async def undelivered(self, subscription: str, count: int) -> list[dict[str, Any]]:
        """Wait until `count` discards are recorded; all of them."""
        listed: list[dict[str, Any]] = []

        async def all_there() -> bool:
            listed[:] = await self._undelivered(subscription)
            return len(listed) >= count

        await eventually(all_there)
        return listed

    async def _undelivered(self, subscription: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        url: str | None = f"{subscription}/undelivered?limit=50"
        while url is not None:
            response = await self.http.get(url)
            response.raise_for_status()
            rows += response.json()
            url = response.links.get("next", {}).get("url")
        return rows


def created(response: httpx.Response) -> httpx.Response:
    assert response.status_code == httpx.codes.CREATED, f"{response.status_code} {response.text}"
    return response


async def has_all(
    receiver: Subscriber, messages: Collection[str], *, within_s: float = PATIENCE_S
) -> None:
    """Wait until `receiver` has had each of these messages, by id, at least once."""
    missing, seen = set(messages), 0

    def none_is_missing() -> bool:
        # Asked for each request: each is looked at once.
        nonlocal seen
        came = receiver.received[seen:]
        missing.difference_update(each.message_id for each in came)
        seen += len(came)
        return not missing

    await receiver.wait_until(none_is_missing, within_s)


async def eventually(
    condition: Callable[[], Awaitable[bool]], *, within_s: float = PATIENCE_S
) -> None:
    """Wait until another process has made `condition` true.

    While the database or the log does not answer, which happens on a busy machine, it counts as
    not true. Then a store raises an error, and the API answers 503.

    Raises:
        TimeoutError: It was not true in time.
    """
    async with asyncio.timeout(within_s):
        while not await _holds(condition):  # noqa: ASYNC110 - another process has no event of ours
            await asyncio.sleep(LOOK_EVERY_S)


async def _holds(condition: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await condition()
    except UnavailableError:
        return False
    except httpx.HTTPStatusError as exc:
        if exc.response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            raise
        return False


def event_of(body: bytes) -> str:
    name: str = json.loads(body)["event"]
    return name


@asynccontextmanager
async def running(
    configuration: Mapping[str, str], logs: Path, *, workers: int = 1
) -> AsyncIterator[Service]:
    """A service with an API and `workers`."""
    async with Service(configuration, logs) as service:
        await service.api()
        for _ in range(workers):
            await service.worker()
        yield service

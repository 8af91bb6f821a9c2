"""One cell of the matrix of faults: publish, upset something, wait, and judge the history.

Each cell has a topic of its own, with four subscriptions: one that is well, one with an order by
key, one that fails at times, one that refuses some messages for good.
"""

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from app.log.interface import MessageLog
from tests.benchmarks import pace
from tests.benchmarks.real_history import RealHistory, reply_of, subscriptions
from tests.e2e.service import Service
from tests.fakes.egress import LOOPBACK
from tests.fakes.subscriber import Received, Subscriber
from tests.simulation.checker import check
from tests.simulation.plan import MessagePlan
from tests.simulation.violation import Violation
from tests.simulation.world import body_of
from workers.transport.transport import DeliveryTransport

RATE: Final = 60
PARTITIONS: Final = 4
# Under load before something happens, and after it.
BEFORE_S: Final = 2.0
AFTER_S: Final = 2.0
# So long all that was acknowledged is waited for.
PATIENCE_S: Final = 120.0
ANSWER_WITHIN_S: Final = 10.0
LOOK_S: Final = 0.1
# These rules compare times of the product with those of this process, on a machine that does other
# things meanwhile.
OF_TIME: Final = frozenset({"rate", "delay"})

Upset = Callable[[], Awaitable[None]]
Figures = dict[str, float]


@dataclass(slots=True)
class Scene:
    """What all cells share: the service, its log, a receiver, and the URL under which it is."""

    service: Service
    receiver: Subscriber
    endpoint: str
    open_log: Callable[[], AbstractAsyncContextManager[MessageLog]]
    made: Any = field(default_factory=itertools.count)
    violations: list[str] = field(default_factory=list)
    # That of the cell which is under way.
    topic: str = ""

    async def cell(self, row: str, upset: Upset) -> Figures:
        """What became of what was published while that happened; `violations` has the rest."""
        topic = self.topic = f"bench.faults{next(self.made)}"
        await self._prepare(topic)
        self.receiver.received.clear()
        history = RealHistory(topic, PARTITIONS)
        async with self._publishing(topic, history):
            await pace.until(time.monotonic() + BEFORE_S)
            history.upset(begins=True)
            begun = history.now
            await upset()
            over = history.now
            await pace.until(time.monotonic() + AFTER_S)
        listed = await self._settled(topic, history)
        settled = history.now
        # Workers may notice for a while that something had happened.
        history.upset(begins=False)
        broken = await self._judged(topic, history, listed)
        self.violations += [f"{row}: {each}" for each in broken]
        await self._remove(topic)
        return self._figures(history, broken, times=(begun, over, settled))

    async def _prepare(self, topic: str) -> None:
        await self.service.topic(topic, partitions=PARTITIONS)
        for plan in subscriptions(topic):
            path = await self.service.subscribe(
                topic,
                plan.name,
                self.endpoint + plan.name,
                rate=plan.rate,
                requestTimeout=int(1_000 * plan.timeout_s),
                messageBackoff=int(1_000 * plan.backoff_s),
                inflightSize=plan.in_flight,
                messageTtl=int(plan.ttl_s),
            )
            if plan.ordering != "NONE":
                changed = await self.service.http.put(path, json={"ordering": plan.ordering})
                changed.raise_for_status()
            await self.service.applied(path)

    async def _remove(self, topic: str) -> None:
        """Delete the topic, so that no cell has the work of those before it."""
        http = self.service.http
        for plan in subscriptions(topic):
            (await http.delete(f"/topics/{topic}/subscriptions/{plan.name}")).raise_for_status()
        (await http.delete(f"/topics/{topic}")).raise_for_status()

    @asynccontextmanager
    async def _publishing(self, topic: str, history: RealHistory) -> AsyncIterator[None]:
        """Publish at RATE inside the block, whatever the answers; each is answered when it ends."""
        async with (
            httpx.AsyncClient(
                base_url=self.service.url,
                transport=DeliveryTransport(egress=LOOPBACK),
                timeout=ANSWER_WITHIN_S,
            ) as http,
            asyncio.TaskGroup() as tasks,
        ):

            async def endlessly() -> None:
                start = time.monotonic()
                for number in itertools.count():
                    await pace.until(start + number / RATE)
                    message = history.published()
                    tasks.create_task(_publish(http, topic, history, message=message))

            endless = tasks.create_task(endlessly())
            try:
                yield
            finally:
                endless.cancel()

    async def _settled(self, topic: str, history: RealHistory) -> Mapping[str, Sequence[Any]]:
        """Wait until all that was acknowledged is delivered or listed; what is listed then."""
        deadline = time.monotonic() + PATIENCE_S
        listed = await self._listed(topic)
        while not self._all_there(history, listed) and time.monotonic() < deadline:
            await pace.until(time.monotonic() + LOOK_S)
            # What is listed is asked for only when the rest has come: a look costs a request.
            if self._all_there(history, {"refusing": None}) or not listed:
                listed = await self._listed(topic)
        return listed

    def _all_there(
        self, history: RealHistory, listed: Mapping[str, Sequence[dict[str, Any]] | None]
    ) -> bool:
        """Whether each acknowledged message was accepted or is listed; None stands for any."""
        accepted: dict[str, set[str]] = defaultdict(set)
        for each in self.receiver.received:
            if _is_taken(each):
                accepted[each.path.removeprefix("/")].add(each.message_id)
        for plan in subscriptions(""):
            rows = listed.get(plan.name, ())
            if rows is None:
                continue
            known = accepted[plan.name] | {each["messageId"] for each in rows}
            if not history.acknowledged.keys() <= known:
                return False
        return True

    async def _listed(self, topic: str) -> Mapping[str, Sequence[dict[str, Any]]]:
        try:
            return {
                plan.name: await self.service.undelivered(
                    f"/topics/{topic}/subscriptions/{plan.name}", 0
                )
                for plan in subscriptions(topic)
            }
        except (httpx.HTTPError, TimeoutError):
            return {}

    async def _judged(
        self, topic: str, history: RealHistory, listed: Mapping[str, Sequence[Any]]
    ) -> list[Violation]:
        history.received(self.receiver.received)
        async with self.open_log() as log:
            await history.stored(log)
        for plan in subscriptions(topic):
            path = f"/topics/{topic}/subscriptions/{plan.name}"
            metrics = await self.service.accounted(path, history.stored_count)
            history.counted(plan.name, metrics, listed.get(plan.name, ()))
        history.ended(())
        found = check(history.plan(), history.history)
        return [each for each in found if each.rule not in OF_TIME]

    def _figures(
        self,
        history: RealHistory,
        broken: Sequence[Violation],
        *,
        times: tuple[float, float, float],
    ) -> Figures:
        begun, over, settled = times
        accepted = [each for each in self.receiver.received if _is_taken(each)]
        counts = len({(each.path, each.message_id) for each in accepted})
        lost = [each for each in broken if each.rule in {"lost", "acknowledged"}]
        return {
            "sent": len(history.messages),
            "acknowledged": len(history.acknowledged),
            "lost": len(lost),
            "other violations": len(broken) - len(lost),
            "duplicates": len(accepted) - counts,
            "lasted s": over - begun,
            "no 201 for s": longest_gap(sorted(history.acknowledged.values()), begun, settled),
            "no delivery for s": longest_gap(history.arrivals(accepted), begun, settled),
            "all there after s": settled - over,
        }


def longest_gap(times: Sequence[float], begun: float, over: float) -> float:
    """The longest time without any of these, from a beginning to an end."""
    inside = [begun, *(each for each in times if begun < each < over)]
    return max((after - before for before, after in itertools.pairwise(inside)), default=0.0)


def _is_taken(received: Received) -> bool:
    return reply_of(received).status == httpx.codes.OK


async def _publish(
    http: httpx.AsyncClient, topic: str, history: RealHistory, *, message: MessagePlan
) -> None:
    headers = {"Idempotency-Key": message.name}
    if message.key is not None:
        headers["Partition-Key"] = message.key
    try:
        answer = await http.post(f"/topics/{topic}", content=body_of(message), headers=headers)
    except httpx.HTTPError as error:
        history.answered(message, stored=False, why=type(error).__name__)
    else:
        stored = answer.status_code == httpx.codes.CREATED
        history.answered(message, stored=stored, why=str(answer.status_code))

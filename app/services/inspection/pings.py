"""Pings: test messages to subscriptions, sent by a worker while the caller waits."""

import asyncio
import time
from collections import OrderedDict
from datetime import timedelta
from typing import Final
from uuid import uuid4

from app.domain.catalogue.subscription import Subscription
from app.domain.errors import NoWorkerError, PingTooSoonError
from app.domain.runtime.ping import PING_TIMEOUT_MAX, Ping, Pong, pong_in
from app.domain.status import WorkerStatus
from app.services.applied_changes import LIVE_WITHIN
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.health.workers import WorkerRepository
from app.storage.runtime.pings import notify_ping, pong_channel

# The shortest time, in seconds, between two pings that this process sends to one subscription.
PAUSE_S: Final = 1.0
# The maximum number of subscriptions for which this process remembers the time of the last ping.
REMEMBERED_MAX: Final = 1_000
# The maximum number of pings of this process at the same time.
WAITING_MAX: Final = 100
# How long the notifications from and to the worker may take. The time that the subscriber may take
# is added.
MARGIN: Final = timedelta(seconds=3)


class PingService:
    """Lets workers send test messages. Call `receive` with each notification of `channel`."""

    def __init__(self, database: Database, *, margin: timedelta = MARGIN) -> None:
        self._database = database
        self._margin = margin
        self._name = uuid4().hex
        self._last = 0
        self._waiting: dict[int, asyncio.Future[Pong]] = {}
        self._pinged: OrderedDict[str, float] = OrderedDict()

    @property
    def channel(self) -> str:
        """The notification channel on which workers send results to this process."""
        return pong_channel(self._name)

    def receive(self, payload: str) -> None:
        """Pass the result of a ping to the call that waits for this result.

        Results that no call waits for are ignored.
        """
        heard = pong_in(payload)
        waiting = self._waiting.get(heard[0]) if heard else None
        if heard and waiting is not None and not waiting.done():
            waiting.set_result(heard[1])

    async def ping(self, topic: str, name: str) -> Pong:
        """Send a test message to the subscription, and return the result.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            PingTooSoonError: Another ping was just sent, or too many pings are running.
            NoWorkerError: No worker runs, or the worker did not answer in time.
        """
        async with self._database.transaction() as session:
            subscription = await SubscriptionRepository(session).get(topic, name)
            workers = await WorkerRepository(session).live(LIVE_WITHIN)
        worker = _chosen(workers, subscription)
        self._admit(subscription.id)
        self._last = number = self._last + 1
        pong = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with self._database.transaction() as session:
                await notify_ping(session, Ping(worker.id, self._name, number, subscription.id))
            return await _within(pong, _timeout_of(subscription) + self._margin, worker)
        finally:
            del self._waiting[number]

    def _admit(self, subscription_id: str) -> None:
        now = time.monotonic()
        soon = now < self._pinged.get(subscription_id, now)
        if soon or len(self._waiting) >= WAITING_MAX:
            raise PingTooSoonError("One ping a second is sent to a subscription")
        self._pinged[subscription_id] = now + PAUSE_S
        self._pinged.move_to_end(subscription_id)
        while len(self._pinged) > REMEMBERED_MAX:
            self._pinged.popitem(last=False)


async def _within(pong: asyncio.Future[Pong], patience: timedelta, worker: WorkerStatus) -> Pong:
    try:
        async with asyncio.timeout(patience.total_seconds()):
            return await pong
    except TimeoutError as exc:
        raise NoWorkerError(f"Worker {worker.id} has not said what came of the ping") from exc


def _timeout_of(subscription: Subscription) -> timedelta:
    # Wait for a ping twice as long as for one request. The worker may first have to get an access
    # token, and this may take as long as the request itself.
    return 2 * min(subscription.policy.request_timeout, PING_TIMEOUT_MAX)


def _chosen(workers: list[WorkerStatus], subscription: Subscription) -> WorkerStatus:
    """Return the worker that will send the ping.

    Workers that have applied the last change of the subscription are preferred. Among several such
    workers, or if there are none, the worker with the latest heartbeat is chosen.
    """
    if not workers:
        raise NoWorkerError("No worker lives that could send a ping")
    return max(workers, key=lambda each: (each.applied_change >= subscription.change, each.seen_at))

"""The history of real processes, in the words of the simulation, so that its checker judges it.

What the log has is read from the log, and what was sent is what came to the receiver. Which worker
sent it is not known there. So each request has a worker of its own, and no rule that compares what
one worker did judges these histories: backoff, `Retry-After`, requests in flight. A fault counts
for all workers.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from app.log.interface import MessageLog
from tests.contract.logs import read_all
from tests.fakes.subscriber import Received, Reply
from tests.simulation.history import (
    Acknowledged,
    Answered,
    Arrived,
    Counted,
    Discarded,
    Ended,
    Fault,
    Heard,
    History,
    Published,
    Sent,
    Stored,
    Subscribed,
    Unacknowledged,
)
from tests.simulation.plan import MessagePlan, Plan, SubscriptionPlan, TopicPlan
from tests.simulation.subscribers import digest_of

# How often the receiver of a flaky subscription refuses a first attempt, and which messages
# another one refuses for good.
FLAKY: Final = 5
REFUSED: Final = 10
KEYS: Final = ("a", "b", "c", None)


def subscriptions(topic: str) -> list[SubscriptionPlan]:
    """One that is well, one with an order, one that fails at times, one that refuses some."""
    usual = {"topic": topic, "rate": 10_000, "in_flight": 50, "timeout_s": 5.0}
    return [
        SubscriptionPlan(name="well", mood="well", **usual),  # type: ignore[arg-type]  # fields
        SubscriptionPlan(name="keys", mood="well", ordering="KEY", **usual),  # type: ignore[arg-type]  # the same
        SubscriptionPlan(name="flaky", mood="flaky", backoff_s=0.2, **usual),  # type: ignore[arg-type]  # the same
        SubscriptionPlan(name="refusing", mood="refusing some", **usual),  # type: ignore[arg-type]  # the same
    ]


def reply_of(received: Received) -> Reply:
    """How the receiver answers, by the path, which names the subscription."""
    number = int(received.message_id.removeprefix("m") or 0)
    if received.path == "/flaky" and number % FLAKY == 0 and received.retry_count == 0:
        return Reply(status=503)
    if received.path == "/refusing" and number % REFUSED == 0:
        return Reply(status=400)
    return Reply()


class RealHistory:
    """What is noted while messages are published, and made of what came afterwards."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.history = History()
        self.messages: list[MessagePlan] = []
        self.acknowledged: dict[str, float] = {}
        self._begun = time.monotonic()
        self._topic = topic
        self._partitions = partitions
        self._subscriptions = subscriptions(topic)
        for each in self._subscriptions:
            self.history.add(
                Subscribed(
                    at=0.0,
                    subscription=each.name,
                    incarnation=each.name,
                    topic=topic,
                    start=(0,) * partitions,
                )
            )

    @property
    def now(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begun

    @property
    def stored_count(self) -> int:
        """How many records the log was found to have."""
        return sum(1 for _ in self.history.of(Stored))

    def arrivals(self, requests: Iterable[Received]) -> list[float]:
        """When these came."""
        return [each.at - self._begun for each in requests]

    def plan(self) -> Plan:
        """What was done, as the plan of a simulation."""
        return Plan(
            seed=0,
            workers=0,
            topics=[TopicPlan(name=self._topic, partitions=self._partitions, ack_all=True)],
            subscriptions=self._subscriptions,
            messages=self.messages,
            acts=(),
        )

    def published(self) -> MessagePlan:
        """Note that the next message is published; what it is."""
        number = len(self.messages)
        message = MessagePlan(
            at=self.now,
            name=f"m{number}",
            topic=self._topic,
            key=KEYS[number % len(KEYS)],
            publisher=0,
            size=200,
        )
        self.messages.append(message)
        self.history.add(
            Published(at=self.now, message=message.name, topic=self._topic, key=message.key)
        )
        return message

    def answered(self, message: MessagePlan, *, stored: bool, why: str = "") -> None:
        """Note what the publisher was told."""
        if stored:
            self.acknowledged[message.name] = self.now
            self.history.add(Acknowledged(at=self.now, message=message.name))
        else:
            self.history.add(Unacknowledged(at=self.now, message=message.name, why=why))

    def upset(self, *, begins: bool) -> None:
        """Note that something is done from which commits, or processes, may suffer."""
        self.history.add(Fault(at=self.now, what="upset", where="log", begins=begins))

    def received(self, requests: Iterable[Received]) -> None:
        """Add what came to the receiver, and what it answered."""
        for number, each in enumerate(requests, 1):
            at, status = each.at - self._begun, reply_of(each).status
            name = each.message_id
            self.history.add(
                Sent(
                    at=at,
                    worker=f"of request {number}",
                    incarnation=each.path.removeprefix("/"),
                    request=number,
                    message=name,
                    retry_count=each.retry_count,
                    begun=at,
                )
            )
            digest = digest_of(each.body)
            self.history.add(Arrived(at=at, request=number, message=name, body=digest))
            self.history.add(Answered(at=at, request=number, message=name, status=status))
            self.history.add(Heard(at=at, request=number, message=name, status=status))

    async def stored(self, log: MessageLog) -> None:
        """Add what the log has."""
        for partition in await log.partitions(self._topic):
            for record in await read_all(log, partition):
                self.history.add(
                    Stored(
                        at=self.now,
                        topic=self._topic,
                        partition=partition.index,
                        offset=record.offset,
                        message=(record.header(b"id") or b"?").decode(),
                        size=len(record.value or b""),
                    )
                )

    def counted(self, name: str, metrics: dict[str, Any], listed: Sequence[dict[str, Any]]) -> None:
        """Add what the API says of a subscription at the end."""
        for each in listed:
            self.history.add(
                Discarded(
                    at=self.now,
                    incarnation=name,
                    topic=self._topic,
                    partition=each["partition"],
                    offset=each["offset"],
                    message=each["messageId"],
                    reason=each["reason"],
                    epoch="",
                )
            )
        places = sorted((each["partition"], each["offset"]) for each in listed)
        self.history.add(
            Counted(
                at=self.now,
                incarnation=name,
                delivered=metrics["delivered"],
                discarded=metrics["discarded"],
                filtered=metrics["filtered"],
                listed=tuple(places),
            )
        )

    def ended(self, left: Sequence[str]) -> None:
        """Add that all is over, and what was not finished in time."""
        self.history.add(Ended(at=self.now, left=tuple(left)))

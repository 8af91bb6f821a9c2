"""The three subscribers of the demonstration, and what each has received."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from app.cli.commands.demo.events import REFUSED_TYPE
from app.cli.receiver import Received, ReceiverAnswer

OK: Final = 200
# The response of the flaky subscriber while it is overloaded. The response asks for a pause.
_OVERLOADED: Final = ReceiverAnswer(status=503, headers={"Retry-After": "1"})
# How long each overload of the flaky subscriber lasts.
_OVERLOADED_FOR_S: Final = 0.3
# The number of overloads in the demo.
_OVERLOADS: Final = 4
# One of 125 first attempts fails. Failures that are so rare do not look like an outage.
_FAILS_EVERY: Final = 125
_FAILS_AT: Final = 7
# This value replaces the digest of a message that arrived with different bodies.
_ALTERED: Final = b""

# A subscriber's behaviour: a function that returns the response to an attempt.
Behaviour = Callable[["Attempt"], ReceiverAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt to deliver one event to a subscriber.

    `sequence` is the number of the event, and `type` is its type. `first` says whether this is the
    first attempt for the message. `now` is the time of the attempt in seconds, on a clock that
    never goes back.
    """

    sequence: int
    type: str
    first: bool
    now: float


@dataclass(slots=True)
class SubscriberRecord:
    """What one subscriber has received, by message id."""

    attempts: Counter[str] = field(default_factory=Counter)
    taken: Counter[str] = field(default_factory=Counter)
    refused: set[str] = field(default_factory=set)
    digests: dict[str, bytes] = field(default_factory=dict)

    @property
    def retries(self) -> int:
        """The number of retries: all attempts except the first attempt of each message."""
        return self.attempts.total() - len(self.attempts)

    @property
    def finished(self) -> int:
        """The number of messages that were accepted, or finally refused."""
        return len(self.taken) + len(self.refused)


class Subscriber:
    """A subscriber: answers each request as `behaviour` says, and remembers what it received."""

    def __init__(self, name: str, behaviour: Behaviour, *, clock: Callable[[], float]) -> None:
        self.name = name
        self.seen = SubscriberRecord()
        self._behaviour = behaviour
        self._clock = clock

    def handle(self, received: Received) -> ReceiverAnswer:
        """Record one request, and respond to it."""
        event = json.loads(received.body)
        message_id = received.message_id
        attempt = Attempt(
            sequence=event["sequence"],
            type=event["event"],
            first=message_id not in self.seen.attempts,
            now=self._clock(),
        )
        answer = self._behaviour(attempt)
        self._remember(message_id, received.body, answer.status)
        return answer

    def _remember(self, message_id: str, body: bytes, status: int) -> None:
        self.seen.attempts[message_id] += 1
        digested = digest(body)
        if self.seen.digests.setdefault(message_id, digested) != digested:
            self.seen.digests[message_id] = _ALTERED
        if status == OK:
            self.seen.taken[message_id] += 1
        elif 400 <= status < 500:  # noqa: PLR2004 - client errors are final
            self.seen.refused.add(message_id)


def healthy(_: Attempt) -> ReceiverAnswer:
    """Accept everything."""
    return ReceiverAnswer()


def broken(attempt: Attempt) -> ReceiverAnswer:
    """Refuse all events of one type, and accept all others."""
    return ReceiverAnswer(status=400) if attempt.type == REFUSED_TYPE else ReceiverAnswer()


class Flaky:
    """The behaviour of the flaky subscriber: some first attempts fail.

    One first attempt in 125 gets a 500. During each short overload, all first attempts get a 503.
    The overloads are spread evenly over the demo, which has `events` events.
    """

    def __init__(self, events: int) -> None:
        self._overloads = {events * nth // (_OVERLOADS + 1) for nth in range(1, _OVERLOADS + 1)}
        self._overloaded_until = 0.0

    def __call__(self, attempt: Attempt) -> ReceiverAnswer:
        """Return the response to one attempt."""
        if not attempt.first:
            return ReceiverAnswer()
        if attempt.sequence in self._overloads:
            self._overloaded_until = attempt.now + _OVERLOADED_FOR_S
        if attempt.now < self._overloaded_until:
            return _OVERLOADED
        failing = attempt.sequence % _FAILS_EVERY == _FAILS_AT
        return ReceiverAnswer(status=500) if failing else ReceiverAnswer()


def digest(body: bytes) -> bytes:
    """Return a digest of a body, to compare bodies without keeping them."""
    return blake2b(body, digest_size=16).digest()

"""A topic of which the test itself knows what was published, and how each message was answered."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from tests.e2e.service import Service
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.spark.test_retransmitting import MARK, TOPIC, ended

KEYS: Final = ("k0", "k1", "k2", "k3", None)
SIZES: Final = ("small", "large")
COLOURS: Final = ("red", "blue")
# Most are accepted; each other answer is a refusal for good.
ANSWERS: Final = (200, 200, 200, 400, 404, 422)
# Filters of requests, by a header and by the body.
RED: Final = {"type": "header", "header": "Colour", "matcher": "red"}
SMALL_AND_ODD: Final = {"type": "cel", "expression": "body.n % 2 == 1 && body.size == 'small'"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A message as its publisher knows it. `answer` is what the subscriber says at first."""

    id: str
    number: int
    key: str | None
    size: str
    colour: str
    answer: int

    @property
    def is_refused(self) -> bool:
        """Whether the subscriber refuses it at first."""
        return self.answer != 200

    @property
    def is_small_and_odd(self) -> bool:
        """Whether SMALL_AND_ODD lets it pass."""
        return self.size == "small" and self.number % 2 == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request, and the messages that it selects."""

    body: Mapping[str, Any]
    wanted: Callable[[Published], bool]


class History:
    """All that was published to the topic, by the test itself, with random contents."""

    def __init__(self, service: Service, *, seed: int) -> None:
        self.messages: list[Published] = []
        self.dice = random.Random(seed)
        self._service = service

    async def grow(self, count: int) -> None:
        """Publish so many messages more."""
        for _ in range(count):
            self.messages.append(await self._published(len(self.messages)))

    async def _published(self, number: int) -> Published:
        key, size = self.dice.choice(KEYS), self.dice.choice(SIZES)
        colour, answer = self.dice.choice(COLOURS), self.dice.choice(ANSWERS)
        body = orjson.dumps({"n": number, "size": size, "answer": answer})
        headers = {"Colour": colour} | ({} if key is None else {"Partition-Key": key})
        id_ = await self._service.publish(TOPIC, body, **headers)
        return Published(id=id_, number=number, key=key, size=size, colour=colour, answer=answer)

    def numbers(self, wanted: Callable[[Published], bool]) -> set[int]:
        """The numbers of the messages that are wanted."""
        return {each.number for each in self.messages if wanted(each)}

    def ids(self, numbers: Collection[int]) -> list[str]:
        """The ids of the messages with these numbers, and one of no message."""
        return [each.id for each in self.messages if each.number in numbers] + ["unknown"]

    def some(self, count: int) -> set[int]:
        """So many numbers, by chance."""
        return set(self.dice.sample(range(len(self.messages)), count))


@dataclass(slots=True, kw_only=True)
class Proof:
    """Sends each case again, and compares what came with what is wanted.

    `sent` are the numbers that came so far. They are not wanted again with `once`.
    """

    service: Service
    path: str
    receiver: Subscriber
    history: History
    once: bool = False
    sent: set[int] = field(default_factory=set)

    async def of_all(self, cases: Sequence[Case]) -> None:
        """Of cases that do not depend on each other, so that they may be asked for at once."""
        asked = [(case, await self._asked(case)) for case in cases]
        for case, places in asked:
            await self._compared(case, *places)

    async def of_each(self, cases: Sequence[Case]) -> None:
        """Of cases of which each leaves out what those before it have sent."""
        for case in cases:
            await self._compared(case, *await self._asked(case))

    async def _asked(self, case: Case) -> tuple[str, str]:
        """Where its dry run is seen, and where the retransmission is."""
        body = {"share": 1, "from": "-6h", **case.body}
        foreseen = await requested(self.service, self.path, {**body, "dryRun": True})
        return foreseen, await requested(self.service, self.path, body)

    async def _compared(self, case: Case, foreseen: str, sent: str) -> None:
        wanted = self.history.numbers(case.wanted) - (self.sent if self.once else set())
        said = (await ended(self.service, foreseen))["counts"]
        seen = await ended(self.service, sent)
        assert numbers_again(self.receiver, seen["id"]) == sorted(wanted), list(case.body)
        counts = [seen["counts"][name] for name in ("matched", "written", "delivered")]
        assert [said["matched"], *counts] == [len(wanted)] * 4, list(case.body)
        # Else the case would prove nothing.
        assert wanted, list(case.body)
        self.sent |= wanted


async def requested(service: Service, path: str, body: Mapping[str, Any]) -> str:
    """Ask for a retransmission; where it is seen."""
    answer = await service.http.post(f"{path}/retransmission", json=dict(body))
    assert answer.status_code == 202, answer.text
    return answer.headers["Location"]


def numbers_again(receiver: Subscriber, id_: str) -> Sequence[int]:
    """The numbers of the messages that came by that retransmission, each as often as it came."""
    again = [each for each in receiver.received if each.headers.get(MARK) == id_]
    return sorted(orjson.loads(each.body)["n"] for each in again)


def as_it_says(received: Received) -> Reply:
    """The answer that the message itself names."""
    return Reply(status=orjson.loads(received.body)["answer"])

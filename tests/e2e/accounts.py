"""What a receiver saw and what the service says of it, message by message, to be compared."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.e2e.service import Service, eventually
from tests.fakes.subscriber import Received, Reply

ALL = {"trackingMode": "trackingAll"}
ENDS = {"SUCCESS", "FAILED"}

# The number of an attempt, and what it was answered.
Attempt = tuple[int, int]
Entries = list[dict[str, Any]]


class Mixed:
    """Refuses some for good, others once, and takes the rest; remembers what it answered.

    `delay` seconds go by before an answer.
    """

    def __init__(self, refused: frozenset[bytes], delay: float = 0.0) -> None:
        self.answers: dict[str, list[Attempt]] = defaultdict(list)
        self._refused = refused
        self._delay = delay

    def __call__(self, received: Received) -> Reply:
        status = self._status(received)
        self.answers[received.message_id].append((received.retry_count + 1, status))
        return Reply(status=status, delay=self._delay)

    def _status(self, received: Received) -> int:
        if received.body in self._refused:
            return 400
        return 503 if received.retry_count == 0 and len(received.body) % 3 == 0 else 201


async def trace(service: Service, path: str, message_id: str) -> Entries:
    """What is known of a message and the subscription of that path."""
    response = await service.http.get(f"{path}/events/{message_id}/trace")
    entries: Entries = response.raise_for_status().json()
    return entries


async def traces_when(
    service: Service,
    path: str,
    messages: Mapping[str, bytes],
    *,
    complete: Callable[[str, Entries], bool],
) -> dict[str, Entries]:
    """The traces of all messages, each once it is `complete`."""
    traces: dict[str, Entries] = {}
    left = list(messages)

    async def all_complete() -> bool:
        while left:
            found = await trace(service, path, left[-1])
            if not complete(left[-1], found):
                return False
            traces[left.pop()] = found
        return True

    await eventually(all_complete)
    return traces


def attempts(entries: Entries) -> list[Attempt]:
    """Each attempt that is over: its number and its answer."""
    sent = [each for each in entries if "subscription" in each and each["status"] in ENDS]
    return [(each["attempt"], each["statusCode"]) for each in sent]


def statuses(entries: Entries) -> list[str]:
    """What is said of the deliveries."""
    return [each["status"] for each in entries if "subscription" in each]


def publication(entries: Entries) -> list[str]:
    """What is said of the way in."""
    return [each["status"] for each in entries if "subscription" not in each]


def last_life(answers: Sequence[Attempt]) -> Sequence[Attempt]:
    """The attempts since the message was last read from the log.

    A worker that takes over counts on from what was committed: the number of its first attempt may
    be above 1, and is not above that of the last one before it.
    """
    numbers = [number for number, _ in answers]
    repeated = (place for place in range(1, len(numbers)) if numbers[place] <= numbers[place - 1])
    return answers[max(repeated, default=0) :]


async def agree(
    service: Service,
    path: str,
    *,
    delivered: int,
    refused: Sequence[str],
) -> None:
    """Have the counters, and the list of undelivered messages, say what became of all.

    Also of what was refused and recorded, not committed when its worker was killed, and refused
    and recorded again.
    """
    metrics = await service.accounted(path, delivered + len(refused))
    assert (metrics["delivered"], metrics["discarded"]) == (delivered, len(refused))
    listed: list[str] = []

    async def all_listed() -> bool:
        listed[:] = [each["messageId"] for each in await service.undelivered(path, len(refused))]
        return set(listed) >= set(refused)

    await eventually(all_listed)
    assert sorted(listed) == sorted(refused)

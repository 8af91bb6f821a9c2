"""Counts how many records were ever published to thousands of topics.

The count is the sum of the ends (the next offsets) of a topic's partitions. The code runs on the
event loop and does not use kafka-python. That library creates an object for each partition, which
takes longer than the brokers' own work.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final, NamedTuple

from app.domain.errors import LogUnavailableError
from app.log.kafka.caller import Callers
from app.log.kafka.client import FAILED_TRY, NO_LEADER, Leaders, NotSentError, reason
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.partition_leaders import LeaderCache
from app.log.kafka.protocol.ends import Indexes, TopicEnds, ends_frame, read_ends
from app.log.kafka.protocol.wire import MalformedAnswerError
from app.log.kafka.reader import READ_TIMEOUT_S, paused

# The number of topics in one request to a broker. Encoding the request and decoding the response
# takes some milliseconds.
TOPICS_AT_ONCE: Final = 250

_ANSWER_TIMEOUT: Final = timedelta(seconds=READ_TIMEOUT_S)
_CLIENT: Final = "angelia-ends"
_FAILED: Final = (NotSentError, LogUnavailableError, MalformedAnswerError)


class _Left(NamedTuple):
    """The partitions for which a broker did not answer, and the reason."""

    indexes: Indexes
    cause: object = None


class Published:
    """Asks the leaders for the ends (the next offsets) of partitions.

    Each leader is asked on a separate connection. Topic names include the namespace.
    """

    def __init__(self, leader_cache: LeaderCache, credentials: KafkaCredentials) -> None:
        self._leader_cache = leader_cache
        self._callers = Callers(
            leader_cache.address, credentials=credentials, answer_timeout=_ANSWER_TIMEOUT
        )

    def close(self) -> None:
        """Close all connections; waiting callers get an error."""
        self._callers.close()

    async def count(self, topics: Mapping[str, int]) -> Mapping[str, int]:
        """Return how many records were ever appended to each topic."""
        deadline = time.monotonic() + READ_TIMEOUT_S
        names, found = list(topics), Counter[str]()
        for first in range(0, len(names), TOPICS_AT_ONCE):
            some = {name: topics[name] for name in names[first : first + TOPICS_AT_ONCE]}
            left = await self._partitions(some, deadline)
            while left := await self._ask(left, found, deadline):
                pass
        return found

    async def _partitions(self, topics: Mapping[str, int], deadline: float) -> Indexes:
        """Return the existing partitions of the topics.

        `topics` has the least number of partitions of each topic. If the cached leaders have fewer
        partitions, they are looked up again.
        """
        known = await self._leaders(topics, deadline)
        if few := [name for name, count in topics.items() if len(known.get(name, ())) < count]:
            self._leader_cache.forget(few)
            known = await self._leaders(topics, deadline)
        return {name: list(leaders) for name, leaders in known.items()}

    async def _leaders(self, topics: Collection[str], deadline: float) -> Mapping[str, Leaders]:
        while True:
            try:
                return await self._leader_cache.leaders(topics)
            except FAILED_TRY as error:
                await paused(deadline, error)

    async def _ask(self, wanted: Indexes, found: Counter[str], deadline: float) -> Indexes:
        """Ask the leaders for the ends of the partitions. Add the sum of a topic's ends to `found`.

        Returns:
            The partitions to query again, without those of deleted topics.

        Raises:
            LogUnavailableError: No time is left to query the partitions again.
        """
        led = _led(wanted, await self._leaders(wanted, deadline))
        lefts = [_Left(led.pop(NO_LEADER, {}), "no leader")]
        async with asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(self._of(*each, found)) for each in led.items()]
        lefts += [each.result() for each in asking]
        left = _together(each.indexes for each in lefts)
        if left:
            # Forget the leaders of the topics whose query failed, so that they are looked up again.
            self._leader_cache.forget(left)
            await paused(deadline, next(each.cause for each in lefts if each.indexes))
        return left

    async def _of(self, node: int, wanted: Indexes, found: Counter[str]) -> _Left:
        try:
            frame = await self._callers.of(node).ask(
                lambda correlation: ends_frame(correlation, wanted, client=_CLIENT)
            )
            answered = read_ends(frame)
        except _FAILED as error:
            return _Left(wanted, error)
        for each in answered:
            # Leave out a topic if the query failed for all its partitions, because the topic may be
            # deleted.
            if len(each.failed) < len(wanted.get(each.topic, ())):
                found[each.topic] += each.total
        return _left(answered)


def _led(wanted: Indexes, known: Mapping[str, Leaders]) -> dict[int, dict[str, list[int]]]:
    """Group partitions by their leading broker.

    The key NO_LEADER has the partitions without a leader.
    """
    led: dict[int, dict[str, list[int]]] = {}
    for name, indexes in wanted.items():
        leaders = known.get(name, {})
        for index in indexes:
            if index in leaders:
                led.setdefault(leaders[index], {}).setdefault(name, []).append(index)
    return led


def _left(answered: Collection[TopicEnds]) -> _Left:
    failed = {each.topic: each.failed for each in answered if each.failed}
    codes = [code for parts in failed.values() for code in parts.values()]
    return _Left({name: list(parts) for name, parts in failed.items()}, *map(reason, codes[:1]))


def _together(lefts: Iterable[Indexes]) -> Indexes:
    """Combine several results, because several brokers may lead partitions of the same topic."""
    together: dict[str, list[int]] = {}
    for left in lefts:
        for name, indexes in left.items():
            together.setdefault(name, []).extend(indexes)
    return together

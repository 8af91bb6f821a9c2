"""Appends: grouped into one batch per partition, with one batch per partition under way.

One batch under way keeps the order of a key without sequence numbers. A batch is sent again only
when a broker certainly did not take it (no connection, wrong leader); when that is open, its
appends fail and the caller knows that they may or may not be stored.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog
from kafka.protocol.producer import ProduceRequest

from app.domain.errors import (
    AngeliaError,
    LogUnavailableError,
    MessageTooLargeError,
    TopicNotFoundError,
)
from app.domain.message import NewRecord, Partition
from app.domain.topic import Ack
from app.log.interface import LogStats, Position
from app.log.kafka.bridge import IoThread, Untyped
from app.log.kafka.client import (
    FAILED_TRY,
    NO_LEADER,
    RETRY_S,
    STALE_LEADER_CODES,
    Client,
    Leaders,
    NotSentError,
    reason,
)
from app.log.kafka.encoding import BATCH_OVERHEAD, encode, partition_of, size_of

APPEND_TIMEOUT_S: Final = 1.5
# Below Kafka's default for the largest batch, 1,048,588 bytes.
BATCH_BYTES_MAX: Final = 1_000_000

_LEADERS_TTL_S: Final = 30.0
_ACKS: Final = {Ack.LEADER: 1, Ack.ALL: -1}
_NOT_ENOUGH_REPLICAS: Final = 19
_TOO_LARGE_CODES: Final = frozenset({10, 18})
_RETRY_CODES: Final = STALE_LEADER_CODES | {_NOT_ENOUGH_REPLICAS}

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Append:
    """One call of `append`; `positions` fills up from the I/O thread, `done` is the loop's."""

    topic: str
    records: Sequence[NewRecord]
    acks: int
    done: "asyncio.Future[Sequence[Position]]"
    positions: list[Position | None]
    missing: int
    # Set on either thread; what is not sent by then never will be.
    over: bool = False


@dataclass(slots=True)
class _Item:
    """One record of a call, on its way."""

    append: _Append
    index: int
    size: int

    @property
    def record(self) -> NewRecord:
        return self.append.records[self.index]


@dataclass(slots=True)
class _Line:
    """The records waiting for one partition, and whether a batch of it is under way."""

    waiting: deque[_Item] = field(default_factory=deque)
    under_way: bool = False
    batch_bytes: int = BATCH_BYTES_MAX


@dataclass(slots=True)
class _Topic:
    """One topic's partitions; `unplaced` waits until they are known."""

    name: str
    leaders: Leaders = field(default_factory=dict)
    known_at: float = -math.inf
    locating: bool = False
    unplaced: deque[_Append] = field(default_factory=deque)
    lines: dict[int, _Line] = field(default_factory=dict)
    turn: int = 0


@dataclass(slots=True)
class _Batch:
    topic: _Topic
    partition: int
    items: list[_Item]

    @property
    def line(self) -> _Line:
        return self.topic.lines[self.partition]

    @property
    def acks(self) -> int:
        """The strictest that any of its calls asked for."""
        return min(item.append.acks for item in self.items)


class Producer:
    """Appends to any topic. `append` is for the asyncio loop; the rest is the I/O thread's."""

    def __init__(self, io: IoThread, client: Client, *, prefix: str, stats: LogStats) -> None:
        self._io = io
        self._client = client
        self._prefix = prefix
        self._stats = stats
        self._inbox: deque[_Append] = deque()
        self._woken = False
        self._topics: dict[str, _Topic] = {}
        self._finished: list[_Append] = []

    async def append(
        self, topic: str, records: Sequence[NewRecord], ack: Ack
    ) -> Sequence[Position]:
        """As `MessageLog.append`."""
        if not records:
            return ()
        done: asyncio.Future[Sequence[Position]] = asyncio.get_running_loop().create_future()
        missing = len(records)
        call = _Append(topic, records, _ACKS[ack], done, [None] * missing, missing)
        self._inbox.append(call)
        if not self._woken:
            self._woken = True
            self._io.post(self._drain)
        try:
            async with asyncio.timeout(APPEND_TIMEOUT_S):
                return await done
        except TimeoutError as error:
            message = f"Kafka did not take the messages within {APPEND_TIMEOUT_S} s"
            raise LogUnavailableError(message) from error
        finally:
            call.over = True

    def learn(self, topic: str, leaders: Leaders) -> None:
        """Take over what is known of a topic, so that its first message need not wait for it."""
        state = self._topics.setdefault(topic, _Topic(topic))
        self._located(state, leaders)

    def forget(self, topic: str) -> None:
        """The topic is gone; what waits for it is told so."""
        if state := self._topics.get(topic):
            self._reject(state)
            self._settle()

    def _drain(self) -> None:
        """Take in all calls that came, then send what can be sent."""
        self._woken = False
        touched: dict[str, _Topic] = {}
        while self._inbox:
            call = self._inbox.popleft()
            state = self._topics.setdefault(call.topic, _Topic(call.topic))
            state.unplaced.append(call)
            touched[call.topic] = state
        for state in touched.values():
            if state.leaders:
                self._place(state)
            if time.monotonic() - state.known_at > _LEADERS_TTL_S:
                self._locate(state)
        self._send_ready(touched.values())

    def _place(self, state: _Topic) -> None:
        """Give each waiting record its partition; those without a key share one per round."""
        spread = self._next_partition(state)
        count = len(state.leaders)
        while state.unplaced:
            call = state.unplaced.popleft()
            for index, record in enumerate(call.records):
                chosen = spread if record.key is None else partition_of(record.key, count)
                line = state.lines.setdefault(chosen, _Line())
                line.waiting.append(_Item(call, index, size_of(record)))

    def _next_partition(self, state: _Topic) -> int:
        """Round robin over partitions that have a leader, an idle one first."""
        order = sorted(state.leaders)
        state.turn = (state.turn + 1) % len(order)
        turned = order[state.turn :] + order[: state.turn]
        led = [each for each in turned if state.leaders[each] != NO_LEADER] or turned
        idle = (each for each in led if not (each in state.lines and state.lines[each].under_way))
        return next(idle, led[0])

    def _send_ready(self, topics: Iterable[_Topic]) -> None:
        """One request per broker with a batch of each partition that has none under way."""
        requests: dict[tuple[int, int], list[_Batch]] = {}
        for state in topics:
            for partition, line in state.lines.items():
                leader = state.leaders.get(partition, NO_LEADER)
                if line.under_way or not line.waiting:
                    continue
                if leader == NO_LEADER:
                    self._locate(state)
                elif items := _take_batch(line):
                    line.under_way = True
                    batch = _Batch(state, partition, items)
                    requests.setdefault((leader, batch.acks), []).append(batch)
        for (leader, acks), batches in requests.items():
            self._io.net.call_soon(lambda n=leader, a=acks, b=batches: self._send(n, a, b))

    async def _send(self, node: int, acks: int, batches: list[_Batch]) -> None:
        try:
            response = await self._client.send(node, self._request(acks, batches))
            await self._answered(batches, response)
        except NotSentError:
            await self._again(batches)
        except Exception as error:  # noqa: BLE001 - whatever it was, the calls must hear of it
            self._fail(batches, LogUnavailableError(f"Kafka did not acknowledge: {error}"))
        for batch in batches:
            batch.line.under_way = False
        self._send_ready({id(batch.topic): batch.topic for batch in batches}.values())
        self._settle()

    def _request(self, acks: int, batches: list[_Batch]) -> Untyped:
        now_ms = int(time.time() * 1000)
        topic_type = ProduceRequest.TopicProduceData
        by_topic: dict[str, list[Untyped]] = {}
        for batch in batches:
            raw = encode([item.record for item in batch.items], now_ms)
            data = topic_type.PartitionProduceData(index=batch.partition, records=raw)
            by_topic.setdefault(batch.topic.name, []).append(data)
        return ProduceRequest(
            transactional_id=None,
            acks=acks,
            timeout_ms=int(APPEND_TIMEOUT_S * 1000),
            topic_data=[
                topic_type(name=self._prefix + name, partition_data=data)
                for name, data in by_topic.items()
            ],
            min_version=3,
            max_version=11,
        )

    async def _answered(self, batches: list[_Batch], response: Untyped) -> None:
        answers = {
            (topic.name, each.index): each
            for topic in response.responses
            for each in topic.partition_responses
        }
        again = []
        for batch in batches:
            answer = answers.get((self._prefix + batch.topic.name, batch.partition))
            if answer is None:
                self._fail([batch], LogUnavailableError("Kafka left a partition unanswered"))
            elif answer.error_code == 0:
                self._stored(batch, answer.base_offset)
            elif answer.error_code in _RETRY_CODES:
                again.append(batch)
            else:
                self._refused(batch, answer.error_code)
        if again:
            await self._again(again)

    def _stored(self, batch: _Batch, base_offset: int) -> None:
        partition = Partition(batch.topic.name, batch.partition)
        for delta, item in enumerate(batch.items):
            call = item.append
            call.positions[item.index] = Position(partition, base_offset + delta)
            call.missing -= 1
            if not call.missing:
                self._finished.append(call)

    def _refused(self, batch: _Batch, code: int) -> None:
        """A batch over the topic's limit is split; all else fails its calls."""
        if code not in _TOO_LARGE_CODES:
            self._fail([batch], LogUnavailableError(f"Kafka refused the messages: {reason(code)}"))
        elif len(batch.items) == 1:
            message = "the message with its headers is larger than its topic allows"
            self._fail([batch], MessageTooLargeError(message))
        else:
            batch.line.batch_bytes = sum(item.size for item in batch.items) // 2
            batch.line.waiting.extendleft(reversed(batch.items))

    async def _again(self, batches: list[_Batch]) -> None:
        """Put them back, first in their lines, and look for their leaders after a moment."""
        await self._io.sleep(RETRY_S)
        for batch in batches:
            batch.line.waiting.extendleft(reversed(batch.items))
        for state in {id(batch.topic): batch.topic for batch in batches}.values():
            # No leader is known from here on, so nothing is sent until one is found.
            state.leaders = dict.fromkeys(state.leaders, NO_LEADER)
            self._client.forget([self._prefix + state.name])
            self._locate(state)

    def _locate(self, state: _Topic) -> None:
        if not state.locating:
            state.locating = True
            self._io.net.call_soon(lambda: self._locating(state))

    async def _locating(self, state: _Topic) -> None:
        """Ask for the topic's leaders until they are known, or nobody waits for them any more."""
        tries = 0
        try:
            while not self._client.closed and not await self._try_to_locate(state, tries):
                tries += 1
                if not self._awaited(state):
                    break
                await self._io.sleep(RETRY_S)
        finally:
            # Whatever went wrong, the next message for this topic looks for it again.
            state.locating = False
        if self._client.closed:
            self._fail_calls(_waiting(state), LogUnavailableError("the log is closed"))
        self._send_ready([state])
        self._settle()

    async def _try_to_locate(self, state: _Topic, tries: int) -> bool:
        """Whether the topic needs to be looked for no more, found or certainly not there."""
        name = self._prefix + state.name
        try:
            found = (await self._client.refresh([name])).get(name)
        except FAILED_TRY as error:
            if not tries:
                _log.warning("kafka_leaders_unknown", topic=state.name, error=str(error))
            return False
        if found is None:
            self._reject(state)
            return True
        return self._located(state, found)

    def _located(self, state: _Topic, leaders: Leaders) -> bool:
        """Take over `leaders`; whether all that waits has one now."""
        state.leaders = leaders
        state.known_at = time.monotonic()
        self._place(state)
        return all(
            leaders.get(partition, NO_LEADER) != NO_LEADER
            for partition, line in state.lines.items()
            if line.waiting
        )

    def _awaited(self, state: _Topic) -> bool:
        """Drop what is over by now; whether anything is left."""
        state.unplaced = deque(call for call in state.unplaced if not call.over)
        for line in state.lines.values():
            line.waiting = deque(item for item in line.waiting if not item.append.over)
        return bool(state.unplaced) or any(line.waiting for line in state.lines.values())

    def _reject(self, state: _Topic) -> None:
        """The topic does not exist: tell all that wait for it, and remember nothing of it."""
        error = TopicNotFoundError(f"topic {state.name} does not exist in Kafka")
        calls = _waiting(state)
        state.unplaced.clear()
        for line in state.lines.values():
            line.waiting.clear()
        self._fail_calls(calls, error)
        if self._topics.get(state.name) is state:
            del self._topics[state.name]

    def _fail(self, batches: list[_Batch], error: AngeliaError) -> None:
        self._fail_calls([item.append for batch in batches for item in batch.items], error)

    def _fail_calls(self, calls: Iterable[_Append], error: AngeliaError) -> None:
        for call in calls:
            if not call.over:
                call.over = True
                self._io.hand_over(_reject_call, call, error)

    def _settle(self) -> None:
        """Hand all finished calls over to the loop at once."""
        if self._finished:
            finished, self._finished = self._finished, []
            self._io.hand_over(self._resolve, finished)

    def _resolve(self, calls: list[_Append]) -> None:
        for call in calls:
            self._stats.appended_records += len(call.records)
            if not call.done.done():
                call.done.set_result([each for each in call.positions if each is not None])


def _waiting(state: _Topic) -> list[_Append]:
    """The calls that have records waiting to be sent."""
    placed = (item.append for line in state.lines.values() for item in line.waiting)
    return [*state.unplaced, *placed]


def _take_batch(line: _Line) -> list[_Item]:
    """The records at the head of `line` that fit one batch, at least one if any is still wanted."""
    items: list[_Item] = []
    size = BATCH_OVERHEAD
    while line.waiting:
        item = line.waiting[0]
        if item.append.over:
            line.waiting.popleft()
            continue
        size += item.size
        if items and size > line.batch_bytes:
            break
        items.append(line.waiting.popleft())
    return items


def _reject_call(call: _Append, error: AngeliaError) -> None:
    if not call.done.done():
        call.done.set_exception(error)

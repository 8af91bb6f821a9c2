"""Appends the records of all callers.

Records that arrive together are sent in one request to each broker. If a broker reports that it did
not store a batch (wrong leader, too large), the batch is sent again. If it is unknown whether a
batch was stored, the next step depends on the batch's sequence number. A batch with a sequence
number is sent again unchanged: Kafka stores it once. A batch without a number fails, and its
callers know that the records may or may not be stored.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from itertools import count, repeat
from types import TracebackType
from typing import Final, Self

import structlog

from app.domain.catalogue.topic import Ack
from app.domain.errors import (
    AngeliaError,
    LogUnavailableError,
    TopicNotFoundError,
)
from app.domain.message import NewRecord, Partition
from app.log.deadlines import CallDeadline
from app.log.interface import UNKNOWN_OFFSET, LogStats, Position
from app.log.kafka.append_queues import AppendBatch, AppendTopic, KafkaAppend, Located
from app.log.kafka.broker import Broker, RequestRoom
from app.log.kafka.client import FAILED_TRY, NO_LEADER, RETRY_S, reason
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.producer_ids import ProducerIds
from app.log.kafka.protocol.appends import Answers, PartitionAnswer, request_frame
from app.log.kafka.protocol.compression import Compression
from app.log.kafka.protocol.encoding import (
    BatchBody,
    BatchStamp,
    batch_body,
    whole_batch,
)
from app.log.kafka.sequences import (
    REFUSED_RECORDS,
    SENDS_MAX,
    UNANSWERED,
    AskForId,
    BatchOutcome,
    outcome_of,
    refusal,
    refusal_of_one,
)

# The time limit of an append. Publishers get a response long before it. The limit ends appends for
# which no caller waits any more, and closes connections that give no response.
APPEND_TIMEOUT: Final = timedelta(seconds=5)
_CLIENT: Final = "angelia-produce"
_LEADERS_TTL_S: Final = 30.0
# The size of the largest record batch that is compressed on the event loop. To compress a larger
# batch there would delay other requests.
_COMPRESSED_HERE_BYTES_MAX: Final = 16 * 1024
_ACKS: Final = {Ack.LEADER: 1, Ack.ALL: -1}
_ALL: Final = _ACKS[Ack.ALL]
_UNANSWERED: Final = PartitionAnswer(UNANSWERED, -1)

_log = structlog.get_logger(__name__)

Locate = Callable[[str], Awaitable[Located | None]]
"""Looks up a topic by its full name; None if it does not exist. Raises FAILED_TRY errors."""


class Producer(AbstractAsyncContextManager["Producer"]):
    """Appends to any topic, within its `async with` block, on the event loop of this block."""

    def __init__(
        self,
        locate: Locate,
        *,
        prefix: str,
        credentials: KafkaCredentials,
        stats: LogStats,
        compression: Compression = Compression.NONE,
        ask_for_id: AskForId | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a `Producer`. Without `ask_for_id`, batches have no sequence numbers."""
        self._locate_topic = locate
        self._ids = ProducerIds(ask_for_id, clock=clock)
        self._prefix = prefix
        self._credentials = credentials
        self._stats = stats
        self._compression = compression
        self._tasks = asyncio.TaskGroup()
        self._patience = CallDeadline(APPEND_TIMEOUT)
        self._inbox: deque[KafkaAppend] = deque()
        self._topics: dict[str, AppendTopic] = {}
        # The topics with waiting records, in the order in which they began to wait.
        self._waiting: dict[str, AppendTopic] = {}
        self._brokers: dict[int, Broker] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closed = True
        for broker in self._brokers.values():
            broker.close()
        self._drain()
        try:
            await self._tasks.__aexit__(kind, error, traceback)
        finally:
            # Close the connection of each broker, because it may have been opened just before its
            # task was cancelled.
            for broker in self._brokers.values():
                broker.close()

    async def append(
        self, topic: str, records: Sequence[NewRecord], ack: Ack
    ) -> Sequence[Position]:
        """Append `records`; return their positions when the log has acknowledged them."""
        if not records:
            return ()
        if self._closed:
            raise _closed()
        missing = len(records)
        done: asyncio.Future[Sequence[Position]] = self._loop.create_future()
        call = KafkaAppend(topic, records, _ACKS[ack], done, [None] * missing, missing)
        if not self._inbox:
            # All callbacks that are ready now run first, so that their appends are sent together.
            self._loop.call_soon(self._drain)
        self._inbox.append(call)
        self._patience.begin(call, lambda: _fail_call(call, _too_late()))
        try:
            return await done
        finally:
            self._patience.end(call)

    def learn(self, topic: str, located: Located) -> None:
        """Cache the leaders of a topic, so that its first message need not wait for a look-up."""
        state = self._topics.setdefault(topic, AppendTopic(topic))
        self._found(state, located)
        for node in set(located.leaders.values()) - {NO_LEADER}:
            self._open(node)
        self._pump()

    def forget(self, topic: str) -> None:
        """Fail the appends that wait for a deleted topic."""
        if state := self._topics.get(topic):
            self._reject(state)

    # ---- called by the brokers' connections (RequestListener) -----------------------------------

    def opened(self) -> None:
        """Called when a connection to a broker is open, and requests can be sent."""
        self._pump()

    def answered(self, batches: Sequence[AppendBatch], answers: Answers) -> None:
        """Called with the broker's responses for these batches."""
        stale = {
            batch.topic.name: batch.topic for batch in batches if not self._settled(batch, answers)
        }
        for state in stale.values():
            self._stale(state)
        self._done_with(batches)

    def lost(self, batches: Sequence[AppendBatch], error: LogUnavailableError) -> None:
        """Called when a connection is lost, and `batches` have no response: they may be stored."""
        for batch in batches:
            self._unanswered(batch, error)
        # Look up the leaders again, because partitions may have moved.
        for state in {batch.topic.name: batch.topic for batch in batches}.values():
            self._locate(state)
        self._done_with(batches)

    def unreachable(self, node: int) -> None:
        """Called when a broker cannot be reached: its address or partitions may have changed."""
        for state in tuple(self._waiting.values()):
            if node in state.wanted():
                self._locate(state)

    # ---- from calls of `append` to batches ------------------------------------------------------

    def _drain(self) -> None:
        """Take all waiting calls of `append`, and send the batches that can be sent now."""
        if self._closed:
            self._give_up()
            return
        now = time.monotonic()
        while self._inbox:
            call = self._inbox.popleft()
            state = self._topics.get(call.topic) or self._topics.setdefault(
                call.topic, AppendTopic(call.topic)
            )
            state.unplaced.append(call)
            self._waiting[call.topic] = state
            if call.acks == _ALL:
                self._want_id()
            if now - state.known_at > _LEADERS_TTL_S:
                self._locate(state)
        self._pump()

    def _pump(self) -> None:
        """Send all batches that can be sent: one request per broker and kind of acknowledgement."""
        requests: dict[tuple[int, int], list[AppendBatch]] = {}
        room = RequestRoom({} if self._ids.is_awaited else self._brokers)
        now_ms = time.time_ns() // 1_000_000
        for state in tuple(self._waiting.values()):
            state.assign(now_ms)
            for batch in state.batches(room.is_left):
                room.take(batch)
                requests.setdefault((batch.leader, batch.acks), []).append(batch)
            self._still_waiting(state)
        for (node, acks), batches in requests.items():
            self._send(self._brokers[node], acks, batches)

    def _still_waiting(self, state: AppendTopic) -> None:
        """Make sure that the topic's waiting records are sent later."""
        # Move the topic to the end of the queue, or remove it if none of its records wait.
        del self._waiting[state.name]
        if not state.waits:
            return
        self._waiting[state.name] = state
        for node in state.wanted():
            if node == NO_LEADER:
                self._locate(state)
            else:
                self._open(node)

    def _open(self, node: int) -> None:
        broker = self._brokers.get(node)
        if broker is None:
            broker = self._brokers[node] = Broker(
                node,
                self,
                credentials=self._credentials,
                tasks=self._tasks,
                answer_timeout=APPEND_TIMEOUT,
                stats=self._stats,
            )
        if not self._closed:
            broker.open(lambda: self._addresses.get(node))

    def _send(self, broker: Broker, acks: int, batches: Sequence[AppendBatch]) -> None:
        if acks == _ALL:
            self._ids.number(batches)
        size = sum(batch.size for batch in batches)
        if self._compression is not Compression.NONE and size > _COMPRESSED_HERE_BYTES_MAX:
            broker.hold()
            self._tasks.create_task(self._send_packed(broker, acks, batches))
            return
        try:
            encoded = self._packed([_stamped(batch) for batch in batches])
        except Exception:  # noqa: BLE001 - one record that cannot be written must not stop the others
            self._broke(batches)
        else:
            broker.send(self._framed(acks, batches, encoded), batches)

    async def _send_packed(self, broker: Broker, acks: int, batches: Sequence[AppendBatch]) -> None:
        try:
            # Only the compression runs on the thread. Other work there would hold the interpreter's
            # lock, and this event loop would wait for the lock.
            bodies = [_stamped(batch) for batch in batches]
            encoded = await asyncio.to_thread(self._packed, bodies)
        except Exception:  # noqa: BLE001 - the other batches are still sent
            self._broke(batches)
            return
        finally:
            broker.release()
        if broker.is_open:
            broker.send(self._framed(acks, batches, encoded), batches)
            return
        for batch in batches:
            self._again(batch)
        self._done_with(batches)

    def _broke(self, batches: Sequence[AppendBatch]) -> None:
        _log.exception("kafka_batch_broke", topics=sorted({batch.topic.name for batch in batches}))
        error = LogUnavailableError("The messages could not be written as a batch")
        for batch in batches:
            self._failed(batch, error)
        # Call `_done_with` later: it sends batches, and this code may run while others are sent.
        self._loop.call_soon(self._done_with, batches)

    def _packed(self, bodies: Iterable[tuple[BatchBody, BatchStamp]]) -> list[bytes]:
        return [whole_batch(body, self._compression, stamp) for body, stamp in bodies]

    def _framed(
        self, acks: int, batches: Sequence[AppendBatch], encoded: Sequence[bytes]
    ) -> Callable[[int], bytes]:
        topics: dict[str, dict[int, bytes]] = {}
        for batch, raw in zip(batches, encoded, strict=True):
            topics.setdefault(self._prefix + batch.topic.name, {})[batch.partition] = raw
        timeout_ms = int(APPEND_TIMEOUT.total_seconds() * 1000)
        return lambda correlation: request_frame(
            correlation, topics, acks=acks, timeout_ms=timeout_ms, client=_CLIENT
        )

    # ---- answers --------------------------------------------------------------------------------

    def _settled(self, batch: AppendBatch, answers: Answers) -> bool:
        """Process the response for a batch. Return False if its leader must be looked up again."""
        answer = answers.get((self._prefix + batch.topic.name, batch.partition), _UNANSWERED)
        match outcome_of(answer.error_code, numbered=batch.numbered, repeated=batch.repeated):
            case BatchOutcome.STORED:
                self._stored(batch, answer.base_offset)
            case BatchOutcome.REQUEUE | BatchOutcome.REPEAT as found:
                batch.repeated = found is BatchOutcome.REPEAT
                self._again(batch)
                return False
            case BatchOutcome.SPLIT:
                self._split(batch, answer.error_code)
            case BatchOutcome.RENUMBER:
                self._ids.refused(batch, reason(answer.error_code))
                self._want_id()
            case BatchOutcome.FAILED:
                self._failed(batch, refusal(answer.error_code))
        return True

    def _stored(self, batch: AppendBatch, base_offset: int) -> None:
        partition, line = Partition(batch.topic.name, batch.partition), batch.line
        line.grow()
        if batch.numbered and line.run is not None:
            line.refusals = 0
            line.run.stored(len(batch.items))
        if base_offset >= 0:
            # The sealed batches (see `Line`) are the other parts of a batch that was split. The
            # broker has stored this part only now, so it had not stored the whole batch before.
            line.unseal()
        offsets = count(base_offset) if base_offset >= 0 else repeat(UNKNOWN_OFFSET)
        for offset, (call, index, _) in zip(offsets, batch.items, strict=False):
            call.positions[index] = Position(partition, offset)
            call.missing -= 1
            if not call.missing:
                self._stats.appended_records += len(call.records)
                if not call.over:
                    call.done.set_result([each for each in call.positions if each is not None])

    def _split(self, batch: AppendBatch, code: int) -> None:
        """Split a batch that is too large, or has a refused message. A single message fails."""
        if len(batch.items) > 1:
            if code in REFUSED_RECORDS:
                batch.line.trial_bytes = batch.size // 2
            else:
                batch.line.batch_bytes = batch.size // 2
            if batch.repeated:
                # The parts of the split batch keep their sequence numbers. If the whole batch was
                # stored before the topic was changed, its parts must not be stored again.
                batch.line.sealed.extendleft(reversed(batch.halves()))
            else:
                batch.line.put_back(batch.items)
        elif batch.repeated:
            # The error must not say that the message is not stored. The message may have been
            # stored before the topic was changed.
            self._failed(batch, refusal(code))
        else:
            self._failed(batch, refusal_of_one(code))

    def _again(self, batch: AppendBatch) -> None:
        """Send the same batch again if it may be stored, otherwise its records in new batches."""
        if batch.repeated:
            batch.line.sealed.appendleft(batch)
        else:
            batch.line.put_back(batch.items)

    def _unanswered(self, batch: AppendBatch, error: LogUnavailableError) -> None:
        batch.losses += 1
        if self._closed or not batch.numbered or batch.losses >= SENDS_MAX:
            self._failed(batch, error)
        else:
            batch.repeated = True
            self._again(batch)

    def _failed(self, batch: AppendBatch, error: AngeliaError) -> None:
        if batch.numbered:
            # Start another run of sequence numbers. The failed batch may be stored, so no other
            # records may get its number.
            batch.line.run = None
        for call in batch.calls:
            _fail_call(call, error)

    def _done_with(self, batches: Iterable[AppendBatch]) -> None:
        """Let the next batches of these partitions be sent: `batches` are no longer in flight."""
        for batch in batches:
            line, state = batch.line, batch.topic
            line.under_way = False
            if line.waits or state.spare or state.unplaced:
                self._waiting.setdefault(state.name, state)
        if self._waiting:
            self._pump()

    def _want_id(self) -> None:
        if self._ids.want():
            self._tasks.create_task(self._ask_for_id())

    async def _ask_for_id(self) -> None:
        await self._ids.ask()
        self._pump()

    # ---- looking up topics ----------------------------------------------------------------------

    def _stale(self, state: AppendTopic) -> None:
        state.unknown()
        self._waiting[state.name] = state
        self._locate(state, after_s=RETRY_S)

    def _locate(self, state: AppendTopic, *, after_s: float = 0.0) -> None:
        if not state.locating and not self._closed:
            state.locating = True
            self._tasks.create_task(self._locating(state, after_s))

    async def _locating(self, state: AppendTopic, after_s: float) -> None:
        """Look up the topic's leaders until they are known, or no call waits for the topic."""
        pause_s, tries = after_s, 0
        try:
            while not self._closed:
                await asyncio.sleep(pause_s)
                if await self._try_to_locate(state, tries) or not self._awaited(state):
                    break
                pause_s, tries = RETRY_S, tries + 1
        finally:
            # The look-up has ended, even after an error. So the next message for this topic starts
            # another look-up.
            state.locating = False
        self._pump()

    async def _try_to_locate(self, state: AppendTopic, tries: int) -> bool:
        """Look up the topic once. Return False if a leader that is needed is still unknown."""
        try:
            found = await self._locate_topic(self._prefix + state.name)
        except (*FAILED_TRY, LogUnavailableError) as error:
            if not tries:
                _log.warning("kafka_leaders_unknown", topic=state.name, error=str(error))
            return False
        except Exception:  # noqa: BLE001 - an error raised here would end all other appends
            _log.exception("kafka_locating_broke", topic=state.name)
            return False
        if found is None:
            self._reject(state)
            return True
        self._found(state, found)
        return NO_LEADER not in state.wanted()

    def _found(self, state: AppendTopic, located: Located) -> None:
        """Set the leaders of the topic."""
        self._addresses.update(located.addresses)
        state.located(located.leaders, time.monotonic())
        state.assign(time.time_ns() // 1_000_000)

    def _awaited(self, state: AppendTopic) -> bool:
        """Drop the topic's calls for which no caller waits. Return whether any calls are left."""
        state.drop_over()
        return state.waits

    # ---- deleted topics -------------------------------------------------------------------------

    def _reject(self, state: AppendTopic) -> None:
        """Fail all calls for a topic that does not exist, and forget the topic."""
        error = TopicNotFoundError(f"topic {state.name} does not exist in Kafka")
        for call in state.clear():
            _fail_call(call, error)
        self._waiting.pop(state.name, None)
        if self._topics.get(state.name) is state:
            del self._topics[state.name]

    def _give_up(self) -> None:
        waiting = [call for state in self._topics.values() for call in state.clear()]
        for call in (*self._inbox, *waiting):
            _fail_call(call, _closed())
        self._inbox.clear()
        self._waiting.clear()


def _stamped(batch: AppendBatch) -> tuple[BatchBody, BatchStamp]:
    return batch_body([item.record for item in batch.items]), batch.stamp


def _fail_call(call: KafkaAppend, error: AngeliaError) -> None:
    if not call.over:
        call.done.set_exception(error)


def _too_late() -> LogUnavailableError:
    seconds = APPEND_TIMEOUT.total_seconds()
    return LogUnavailableError(f"Kafka did not take the messages within {seconds} s")


def _closed() -> LogUnavailableError:
    return LogUnavailableError("the log is closed")

"""The producer against a broker that answers as it is told."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from kafka.protocol.producer import ProduceRequest
from kafka.record import MemoryRecords

from app.domain.catalogue.topic import Ack
from app.domain.errors import LogUnavailableError, MessageTooLargeError, TopicNotFoundError
from app.domain.message import NewRecord
from app.log.interface import UNKNOWN_OFFSET, LogStats, Position
from app.log.kafka.append_queues import Located
from app.log.kafka.producer import Producer
from app.log.kafka.producer_ids import ASK_AGAIN_AFTER_S, REFUSED_PAUSE_S
from app.log.kafka.protocol.appends import VERSION
from app.log.kafka.protocol.compression import Compression
from app.log.kafka.protocol.wire import FRAME_LENGTH
from app.log.kafka.sequences import (
    REFUSALS_MAX,
    SENDS_MAX,
    AskForId,
    IdRefusedError,
    NoIdsError,
    ProducerId,
)
from tests.integration.log.brokers import PLAIN

TOPIC = "t"
OK, CORRUPT, TOO_LARGE, NOT_LEADER, FEW_REPLICAS, FENCED, DUPLICATE = 0, 2, 10, 6, 19, 47, 46
OUT_OF_ORDER = 45
HANG_UP, SILENT_ON_IT = -100, -101
NODE = 1

Answer = Callable[[list[bytes]], int]
"""From the values of a batch to an error code, or what else is done."""


class Broker:
    """Stores what it takes; `answer` decides."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.stored: dict[int, list[bytes]] = {}
        # Producer id, epoch and sequence number of each batch that came.
        self.stamps: list[tuple[int, int, int]] = []
        self.requests = 0
        self.connections = 0
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.read(FRAME_LENGTH.size):
                (length,) = FRAME_LENGTH.unpack(head)
                answer = self._answered(await reader.readexactly(length))
                if answer is None:
                    return
                writer.write(FRAME_LENGTH.pack(len(answer)) + answer)
        finally:
            writer.close()
            self.left.set()

    def _answered(self, frame: bytes) -> bytes | None:
        self.requests += 1
        request = ProduceRequest.decode(frame, version=VERSION, header=True)
        (topic,) = request.topic_data
        answers = list(self._partitions(topic.partition_data))
        if any(code == HANG_UP for _, code, _ in answers):
            return None
        said = [each for each in answers if each[1] != SILENT_ON_IT]
        name = topic.name.encode()
        return b"".join(
            [
                struct.pack(">iih", request.header.correlation_id, 1, len(name)) + name,
                struct.pack(">i", len(said)),
                *(struct.pack(">ihqqqih", *each, -1, 0, 0, -1) for each in said),
                struct.pack(">i", 0),
            ]
        )

    def _partitions(self, partitions: list[object]) -> Iterator[tuple[int, int, int]]:
        for each in partitions:
            batches = list(MemoryRecords(bytes(each.records)))  # type: ignore[attr-defined]  # kafka has no types
            self.stamps += [
                (batch.producer_id, batch.producer_epoch, batch.base_sequence) for batch in batches
            ]
            values = [record.value for batch in batches for record in batch]
            index: int = each.index  # type: ignore[attr-defined]  # the same
            code, stored = self._answer(values), self.stored.setdefault(index, [])
            yield index, code, -1 if code == DUPLICATE else len(stored)
            if code == OK:
                stored += values


class Place:
    """Where the topic is, and how often that was asked; a question may fail."""

    def __init__(self, address: tuple[str, int], partitions: int) -> None:
        self._found = Located(dict.fromkeys(range(partitions), NODE), {NODE: address})
        self.failures: list[Exception | None] = []
        self.asked = 0

    async def __call__(self, name: str) -> Located | None:
        assert name == f"n.{TOPIC}"
        self.asked += 1
        failure = self.failures.pop() if self.failures else None
        if isinstance(failure, TopicNotFoundError):
            return None
        if failure:
            raise failure
        return self._found


@asynccontextmanager
async def producing(
    answer: Answer,
    *,
    partitions: int = 1,
    compression: Compression = Compression.NONE,
    ask_for_id: AskForId | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[tuple[Producer, Broker, Place]]:
    broker = Broker(answer)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    place = Place(server.sockets[0].getsockname(), partitions)
    try:
        async with Producer(
            place,
            prefix="n.",
            credentials=PLAIN,
            stats=LogStats(),
            compression=compression,
            ask_for_id=ask_for_id,
            clock=clock,
        ) as producer:
            yield producer, broker, place
    finally:
        server.close()


async def appended(producer: Producer, *values: bytes) -> list[Position]:
    records = [NewRecord(value=value, key=b"k") for value in values]
    return list(await producer.append(TOPIC, records, Ack.ALL))


def in_turn(*codes: int) -> Answer:
    """These codes for one batch after the other, then OK."""
    left = list(codes)
    return lambda _: left.pop(0) if left else OK


async def test_what_is_ready_together_goes_in_one_request() -> None:
    async with producing(in_turn()) as (producer, broker, _):
        await appended(producer, b"first")
        before = broker.requests
        await asyncio.gather(*(appended(producer, b"%d" % n) for n in range(50)))
        assert broker.requests == before + 1
    assert broker.stored[0] == [b"first", *(b"%d" % n for n in range(50))]


async def test_a_batch_for_the_wrong_leader_is_sent_again_once_the_leader_is_known() -> None:
    async with producing(in_turn(NOT_LEADER, NOT_LEADER)) as (producer, broker, place):
        positions = await appended(producer, b"a", b"b")
        assert [position.offset for position in positions] == [0, 1]
        assert place.asked >= 3
    assert broker.stored[0] == [b"a", b"b"]


async def test_a_batch_that_is_too_large_is_split_and_only_the_message_that_is_fails() -> None:
    def answer(values: list[bytes]) -> int:
        return TOO_LARGE if sum(map(len, values)) > 250 else OK

    async with producing(answer) as (producer, broker, _):
        calls = [appended(producer, bytes([65 + n]) * size) for n, size in enumerate((99, 300, 98))]
        first, second, third = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(second, MessageTooLargeError)
    assert not isinstance(first, BaseException)
    assert not isinstance(third, BaseException)
    assert broker.stored[0] == [b"A" * 99, b"C" * 98]


@pytest.mark.parametrize("code", [CORRUPT, SILENT_ON_IT, HANG_UP])
async def test_what_is_not_acknowledged_fails_at_once_and_the_next_goes_through(code: int) -> None:
    async with producing(in_turn(code)) as (producer, broker, _):
        with pytest.raises(LogUnavailableError):
            await appended(producer, b"refused")
        await appended(producer, b"stored")
    assert broker.stored[0] == [b"stored"]


async def test_who_lost_a_connection_asks_anew_where_the_topic_is() -> None:
    async with producing(in_turn(OK, HANG_UP)) as (producer, broker, place):
        await appended(producer, b"a")
        asked = place.asked
        with pytest.raises(LogUnavailableError):
            await appended(producer, b"b")
        await appended(producer, b"c")
        assert place.asked > asked
        assert broker.connections == 2


@pytest.mark.parametrize("failure", [RuntimeError("a defect"), LogUnavailableError("not now")])
async def test_a_question_that_fails_is_asked_again(failure: Exception) -> None:
    async with producing(in_turn()) as (producer, broker, place):
        place.failures = [failure]
        await appended(producer, b"a")
    assert broker.stored[0] == [b"a"]


async def test_what_waits_behind_a_batch_that_cannot_be_written_goes_next() -> None:
    async with producing(in_turn()) as (producer, broker, _):
        await appended(producer, b"first")
        odd = NewRecord(value=b"x" * 900_000, key=b"k", timestamp_ms=1 << 70)
        calls = (producer.append(TOPIC, [odd], Ack.ALL), appended(producer, b"y" * 900_000))
        written, waiting = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(written, LogUnavailableError)
        assert not isinstance(waiting, BaseException)
    assert broker.stored[0] == [b"first", b"y" * 900_000]


async def test_leaves_no_connection_when_it_is_closed_while_it_connects() -> None:
    broker = Broker(in_turn())
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    place = Place(address, 1)
    async with server, asyncio.timeout(10):
        async with Producer(place, prefix="n.", credentials=PLAIN, stats=LogStats()) as producer:
            producer.learn(TOPIC, Located({0: NODE}, {NODE: address}))
        await broker.left.wait()


async def test_a_topic_that_is_not_there_is_said_to_all_that_wait_and_looked_for_again() -> None:
    async with producing(in_turn()) as (producer, broker, place):
        place.failures = [TopicNotFoundError("gone")]
        calls = (appended(producer, b"a"), appended(producer, b"b"))
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each) for each in found] == [TopicNotFoundError] * 2
        await appended(producer, b"c")
    assert broker.stored[0] == [b"c"]


async def test_large_batches_are_packed_aside_and_keep_their_order() -> None:
    async with producing(in_turn(), compression=Compression.ZSTD) as (producer, broker, _):
        sent = [b"%d " % n + b"x" * 30_000 for n in range(20)]
        await asyncio.gather(*(appended(producer, value) for value in sent))
    assert broker.stored[0] == sent


async def test_what_waits_when_the_producer_is_closed_is_told_so() -> None:
    async with asyncio.TaskGroup() as tasks:
        async with producing(in_turn(NOT_LEADER)) as (producer, _, place):
            place.failures = [LogUnavailableError("not now")] * 1_000
            waiting = tasks.create_task(appended_or_error(producer))
            # It is under way.
            await asyncio.sleep(0)
        error = await waiting
        assert isinstance(error, LogUnavailableError)
        assert "closed" in error.message
    with pytest.raises(LogUnavailableError, match="closed"):
        await appended(producer, b"late")


async def appended_or_error(
    producer: Producer, value: bytes = b"x"
) -> list[Position] | LogUnavailableError:
    try:
        return await appended(producer, value)
    except LogUnavailableError as error:
        return error


class Ids:
    """Gives one id after the other, or fails as it is told."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self.asked = 0

    async def __call__(self) -> ProducerId:
        self.asked += 1
        if self._failures:
            raise self._failures.pop(0)
        return ProducerId(self.asked, 0)


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


NO_STAMP = (-1, -1, -1)


async def test_batches_of_a_partition_are_numbered_by_their_records() -> None:
    async with producing(in_turn(), ask_for_id=Ids()) as (producer, broker, _):
        await appended(producer, b"a", b"b")
        await appended(producer, b"c")
        await producer.append(TOPIC, [NewRecord(value=b"d")], Ack.LEADER)
        await appended(producer, b"e")
    assert broker.stamps == [(1, 0, 0), (1, 0, 2), NO_STAMP, (1, 0, 3)]


@pytest.mark.parametrize("code", [SILENT_ON_IT, HANG_UP, NOT_LEADER])
async def test_a_batch_of_which_nobody_knows_is_sent_again_as_it_was(code: int) -> None:
    batches: list[list[bytes]] = []

    def answer(values: list[bytes]) -> int:
        batches.append(values)
        return code if len(batches) == 1 else OK

    async with producing(answer, ask_for_id=Ids()) as (producer, broker, _):
        await asyncio.gather(*(appended(producer, value) for value in (b"a", b"b")))
        await appended(producer, b"c")
    assert batches == [[b"a", b"b"], [b"a", b"b"], [b"c"]]
    assert broker.stamps == [(1, 0, 0), (1, 0, 0), (1, 0, 2)]


async def test_what_the_broker_has_already_counts_as_stored() -> None:
    codes = in_turn(HANG_UP, DUPLICATE)
    async with producing(codes, ask_for_id=Ids()) as (producer, broker, _):
        positions = await appended(producer, b"a", b"b")
        await appended(producer, b"c")
    assert [position.offset for position in positions] == [UNKNOWN_OFFSET] * 2
    assert broker.stamps[-1] == (1, 0, 2)


def limited(bytes_max: int, *codes: int) -> Answer:
    """These codes for one batch after the other, then as a topic with this limit."""
    left = list(codes)

    def answer(values: list[bytes]) -> int:
        if left:
            return left.pop(0)
        return TOO_LARGE if sum(map(len, values)) > bytes_max else OK

    return answer


async def test_a_batch_that_is_too_large_for_the_next_leader_is_split() -> None:
    answer = limited(250, NOT_LEADER)
    async with producing(answer, ask_for_id=Ids()) as (producer, broker, _):
        calls = [appended(producer, bytes([65 + n]) * size) for n, size in enumerate((99, 98, 97))]
        await asyncio.gather(*calls)
        await appended(producer, b"next")
    assert broker.stored[0] == [b"A" * 99, b"B" * 98, b"C" * 97, b"next"]
    # The whole, again, its first half, the rest in batches of that size, and what came then.
    assert broker.stamps == [*([(1, 0, 0)] * 3), (1, 0, 1), (1, 0, 2), (1, 0, 3)]


async def test_of_a_batch_that_is_too_large_for_the_next_leader_only_that_message_fails() -> None:
    answer = limited(250, NOT_LEADER)
    async with producing(answer, ask_for_id=Ids()) as (producer, broker, _):
        sizes = (99, 300, 98, 97)
        calls = [appended(producer, bytes([65 + n]) * size) for n, size in enumerate(sizes)]
        first, second, *others = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(second, MessageTooLargeError)
    assert not any(isinstance(each, BaseException) for each in (first, *others))
    assert broker.stored[0] == [b"A" * 99, b"C" * 98, b"D" * 97]


async def test_a_half_is_sent_also_where_nobody_waits_for_the_other() -> None:
    waiting: list[asyncio.Task[list[Position]]] = []

    def answer(values: list[bytes]) -> int:
        if broker.requests == 1:
            return HANG_UP
        if len(values) > 1:
            waiting[0].cancel()
            return TOO_LARGE
        return OK

    async with producing(answer, ask_for_id=Ids()) as (producer, broker, _):
        async with asyncio.TaskGroup() as tasks:
            waiting += (tasks.create_task(appended(producer, value)) for value in (b"a", b"b"))
        await appended(producer, b"c")
    assert broker.stored[0] == [b"a", b"b", b"c"]
    assert broker.stamps[2:] == [(1, 0, 0), (1, 0, 1), (1, 0, 2)]


async def test_halves_of_what_is_stored_already_are_not_stored_again() -> None:
    # The limit was lowered meanwhile; the numbers of halves are not those that the broker expects.
    codes = in_turn(HANG_UP, TOO_LARGE, OUT_OF_ORDER, OUT_OF_ORDER)
    async with producing(codes, ask_for_id=Ids()) as (producer, broker, _):
        calls = [appended_or_error(producer, value) for value in (b"a", b"b")]
        answers = await asyncio.gather(*calls)
        await appended(producer, b"c")
    assert all(isinstance(answer, LogUnavailableError) for answer in answers)
    assert broker.stamps == [*([(1, 0, 0)] * 3), (1, 0, 1), (1, 1, 0)]
    assert broker.stored[0] == [b"c"]


async def test_a_message_of_which_nobody_knows_is_not_said_to_be_too_large() -> None:
    codes = in_turn(HANG_UP, TOO_LARGE, TOO_LARGE)
    async with producing(codes, ask_for_id=Ids()) as (producer, _, _):
        assert isinstance(await appended_or_error(producer), LogUnavailableError)
        with pytest.raises(MessageTooLargeError):
            await appended(producer, b"x")


async def test_what_is_not_stored_waits_under_the_number_that_it_had() -> None:
    codes = in_turn(FEW_REPLICAS)
    async with producing(codes, ask_for_id=Ids()) as (producer, broker, _):
        await appended(producer, b"a")
    assert broker.stamps == [(1, 0, 0)] * 2


async def test_a_batch_that_breaks_each_connection_is_given_up_and_its_number_with_it() -> None:
    codes = in_turn(*([HANG_UP] * SENDS_MAX))
    async with producing(codes, ask_for_id=Ids()) as (producer, broker, _):
        with pytest.raises(LogUnavailableError):
            await appended(producer, b"a")
        await appended(producer, b"b")
    assert broker.stamps == [*([(1, 0, 0)] * SENDS_MAX), (1, 1, 0)]
    assert broker.stored[0] == [b"b"]


async def test_a_batch_for_which_nobody_waits_is_not_sent_again() -> None:
    waiting: list[asyncio.Task[list[Position]]] = []

    def answer(values: list[bytes]) -> int:
        if values != [b"given up"]:
            return OK
        waiting[0].cancel()
        return HANG_UP

    async with producing(answer, ask_for_id=Ids()) as (producer, broker, _):
        async with asyncio.TaskGroup() as tasks:
            waiting.append(tasks.create_task(appended(producer, b"given up")))
        await appended(producer, b"next")
    assert broker.stored[0] == [b"next"]
    assert broker.stamps == [(1, 0, 0), (1, 1, 0)]


async def test_a_number_that_is_refused_is_left_for_another_id() -> None:
    ids = Ids()
    async with producing(in_turn(OK, FENCED), ask_for_id=ids) as (producer, broker, _):
        await appended(producer, b"a")
        await appended(producer, b"b")
    assert broker.stamps == [(1, 0, 0), (1, 0, 1), (2, 0, 0)]
    assert broker.stored[0] == [b"a", b"b"]


async def test_a_partition_whose_numbers_are_always_refused_does_without() -> None:
    codes = in_turn(*([FENCED] * REFUSALS_MAX))
    async with producing(codes, ask_for_id=Ids()) as (producer, broker, _):
        await appended(producer, b"a")
        await appended(producer, b"b")
    assert broker.stamps == [(1, 0, 0), (2, 0, 0), (3, 0, 0), NO_STAMP, NO_STAMP]
    assert broker.stored[0] == [b"a", b"b"]


async def test_a_partition_without_numbers_tries_them_again_after_a_pause() -> None:
    clock = Clock()
    codes = in_turn(*([FENCED] * REFUSALS_MAX), OK, FENCED)
    async with producing(codes, ask_for_id=Ids(), clock=clock) as (producer, broker, _):
        await appended(producer, b"a")
        clock.now += REFUSED_PAUSE_S
        # One refusal is enough this time.
        await appended(producer, b"b")
        clock.now += REFUSED_PAUSE_S
        await appended(producer, b"c")
        await appended(producer, b"d")
    tried_again = [(4, 0, 0), NO_STAMP, (5, 0, 0), (5, 0, 1)]
    assert broker.stamps[REFUSALS_MAX:] == [NO_STAMP, *tried_again]
    assert broker.stored[0] == [b"a", b"b", b"c", b"d"]


async def test_who_gets_no_id_of_old_brokers_asks_no_more() -> None:
    ids, clock = Ids(NoIdsError("too old")), Clock()
    async with producing(in_turn(), ask_for_id=ids, clock=clock) as (producer, broker, _):
        await appended(producer, b"a")
        clock.now += REFUSED_PAUSE_S
        await appended(producer, b"b")
    assert broker.stamps == [NO_STAMP] * 2
    assert ids.asked == 1


@pytest.mark.parametrize(
    ("failure", "pause_s"),
    [
        (IdRefusedError("not for you"), REFUSED_PAUSE_S),
        (LogUnavailableError("not now"), ASK_AGAIN_AFTER_S),
        (RuntimeError("a defect"), ASK_AGAIN_AFTER_S),
    ],
    ids=["refused", "not now", "a defect"],
)
async def test_who_gets_no_id_goes_on_without_and_asks_again_after_a_pause(
    failure: Exception, pause_s: float
) -> None:
    ids, clock = Ids(failure), Clock()
    async with producing(in_turn(), ask_for_id=ids, clock=clock) as (producer, broker, _):
        await appended(producer, b"a")
        clock.now += pause_s / 2
        await appended(producer, b"b")
        assert ids.asked == 1
        clock.now += pause_s / 2
        # Nothing waits for a request after one that failed.
        await appended(producer, b"c")
        await appended(producer, b"d")
    assert broker.stamps == [NO_STAMP] * 3 + [(2, 0, 0)]


async def test_who_waits_for_an_id_is_told_when_the_producer_is_closed() -> None:
    async with asyncio.TaskGroup() as tasks:
        async with producing(in_turn(), ask_for_id=Ids()) as (producer, _, __):
            waiting = tasks.create_task(appended_or_error(producer))
            await asyncio.sleep(0)
        assert isinstance(await waiting, LogUnavailableError)

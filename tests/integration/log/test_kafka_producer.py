"""The producer against a broker that answers as it is told."""

import asyncio

import pytest

from app.api.errors import status_of
from app.domain.catalogue.topic import Ack
from app.domain.errors import (
    LogUnavailableError,
    MessageRefusedError,
    MessageTooLargeError,
    TopicNotFoundError,
)
from app.domain.message import NewRecord
from app.log.interface import LogStats
from app.log.kafka.append_queues import Located
from app.log.kafka.producer import Producer
from app.log.kafka.protocol.compression import Compression
from app.log.kafka.sequences import AskForId, ProducerId
from tests.integration.log.brokers import PLAIN
from tests.integration.log.producing import (
    CORRUPT,
    HANG_UP,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    NODE,
    NOT_LEADER,
    OK,
    SILENT_ON_IT,
    TOO_LARGE,
    TOPIC,
    Broker,
    Place,
    appended,
    appended_or_error,
    in_turn,
    producing,
)


async def an_id() -> ProducerId:
    return ProducerId(1, 0)


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


@pytest.mark.parametrize("position", [0, 7, 99])
@pytest.mark.parametrize("ask", [None, an_id])
@pytest.mark.parametrize(("code", "status"), [(INVALID_RECORD, 400), (INVALID_TIMESTAMP, 503)])
async def test_only_the_message_that_is_refused_fails_and_the_others_keep_their_order(
    ask: AskForId | None, position: int, code: int, status: int
) -> None:
    def answer(values: list[bytes]) -> int:
        return code if b"bad" in values else OK

    sent = [b"%d" % n for n in range(100)]
    sent[position] = b"bad"
    async with producing(answer, ask_for_id=ask) as (producer, broker, _):
        calls = [appended(producer, value) for value in sent]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [n for n, each in enumerate(found) if isinstance(each, BaseException)] == [position]
        refusal = found[position]
        assert isinstance(refusal, MessageRefusedError)
        assert status_of(refusal) == status
        assert broker.stored[0] == [value for value in sent if value != b"bad"]
        assert broker.requests < 25
        # After so many stored batches, a batch may be as large as before.
        for _ in range(20):
            await appended(producer, b"x")
        before = broker.requests
        await asyncio.gather(*(appended(producer, b"y") for _ in range(100)))
        assert broker.requests == before + 1


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
    async with server, asyncio.timeout(60):
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

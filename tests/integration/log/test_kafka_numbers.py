"""Batches with sequence numbers, against a broker that answers as it is told."""

import asyncio

import pytest

from app.domain.catalogue.topic import Ack
from app.domain.errors import LogUnavailableError, MessageRefusedError, MessageTooLargeError
from app.domain.message import NewRecord
from app.log.interface import UNKNOWN_OFFSET, Position
from app.log.kafka.producer_ids import ASK_AGAIN_AFTER_S, REFUSED_PAUSE_S
from app.log.kafka.sequences import REFUSALS_MAX, SENDS_MAX, IdRefusedError, NoIdsError, ProducerId
from tests.integration.log.producing import (
    DUPLICATE,
    FENCED,
    FEW_REPLICAS,
    HANG_UP,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    NOT_LEADER,
    OK,
    OUT_OF_ORDER,
    SILENT_ON_IT,
    TOO_LARGE,
    TOPIC,
    Answer,
    appended,
    appended_or_error,
    in_turn,
    producing,
)


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


@pytest.mark.parametrize("code", [INVALID_RECORD, INVALID_TIMESTAMP])
async def test_a_message_of_which_nobody_knows_is_not_said_to_be_refused(code: int) -> None:
    codes = in_turn(HANG_UP, code, code)
    async with producing(codes, ask_for_id=Ids()) as (producer, _, _):
        assert isinstance(await appended_or_error(producer), LogUnavailableError)
        with pytest.raises(MessageRefusedError):
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

"""Receipts: written, read, and told to who waits for them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.delivery import Discarded
from app.domain.errors import StorageUnavailableError
from app.domain.runtime.receipt import (
    PAYLOAD_BYTES_MAX,
    FinalOutcome,
    Receipt,
    ReceiptAddress,
    address_of,
    payloads,
    receipts_in,
)
from tests.fakes.signal import Signal
from workers.consumer.commit.receipts import WAITING_MAX, Receipts

WAITER = "0123456789abcdef" * 2
receipts = st.builds(
    Receipt,
    st.integers(1, 10**12),
    st.text("abcdef0123456789", min_size=32, max_size=32),
    st.sampled_from(FinalOutcome),
    st.none() | st.integers(100, 599),
    st.text(max_size=500),
)


class Board:
    """Remembers what it is told, unless it is down."""

    def __init__(self) -> None:
        self.posted: dict[str, list[Receipt]] = {}
        self.calls = 0
        self.down = False
        self.changed = Signal()

    async def post(self, receipts: Mapping[str, Sequence[Receipt]]) -> None:
        self.calls += 1
        self.changed.send()
        if self.down:
            raise StorageUnavailableError("the board is down")
        for waiter, those in receipts.items():
            self.posted.setdefault(waiter, []).extend(those)


def a_header(number: int = 1, *, in_ms: int = 5_000, waiter: str = WAITER) -> bytes:
    return ReceiptAddress(waiter, number, time.time_ns() // 1_000_000 + in_ms).header()


@asynccontextmanager
async def posting(board: Board) -> AsyncIterator[Receipts]:
    given = Receipts(board)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(given.run())
        yield given
        running.cancel()


def test_an_address_is_read_as_it_was_written() -> None:
    address = ReceiptAddress(WAITER, 7, 1_767_268_800_000)
    assert address_of(address.header()) == address


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"x",
        WAITER.encode(),
        f"{WAITER} 1".encode(),
        f"{WAITER} 1 2 3".encode(),
        b"' 1 2",
        f"{WAITER.upper()} 1 2".encode(),
        f"{WAITER} {'9' * 16} 2".encode(),
        f"{WAITER} 1 2\n".encode(),
    ],
)
def test_what_foreign_producers_write_names_nobody(header: bytes) -> None:
    assert address_of(header) is None


@settings(max_examples=25)
@given(st.lists(receipts, max_size=60))
def test_receipts_are_read_as_they_were_written_in_texts_that_are_small_enough(
    written: list[Receipt],
) -> None:
    texts = payloads(written)
    assert [each for text in texts for each in receipts_in(text)] == written
    assert all(len(text.encode()) <= PAYLOAD_BYTES_MAX for text in texts)
    assert all(text.isascii() for text in texts)


@pytest.mark.parametrize(
    "text", ["", "x", "1", "[1]", "[[]]", '[[1, "s", "LOST", null, ""]]', "{}"]
)
def test_a_text_that_is_not_of_ours_has_no_receipts(text: str) -> None:
    assert list(receipts_in(text)) == []


def test_a_long_reason_is_cut() -> None:
    (text,) = payloads([Receipt(1, "s", FinalOutcome.DISCARDED, None, "\N{SNOWMAN}" * 5_000)])
    assert len(text) <= PAYLOAD_BYTES_MAX
    assert json.loads(text)[0][4] == "\N{SNOWMAN}" * 500


async def test_tells_each_waiter_its_own() -> None:
    board, other = Board(), "f" * 32
    receipts = Receipts(board)
    receipts.add(a_header(1), "s1", FinalOutcome.DELIVERED)
    receipts.add(a_header(2, waiter=other), "s1", FinalOutcome.FILTERED)
    receipts.add(
        a_header(1), "s2", FinalOutcome.DISCARDED, why=Discarded(reason="refused", status=400)
    )
    assert await receipts.flush()
    assert board.posted == {
        WAITER: [
            Receipt(1, "s1", FinalOutcome.DELIVERED),
            Receipt(1, "s2", FinalOutcome.DISCARDED, 400, "refused"),
        ],
        other: [Receipt(2, "s1", FinalOutcome.FILTERED)],
    }


async def test_tells_nothing_when_nobody_can_wait_any_more() -> None:
    board = Board()
    receipts = Receipts(board)
    receipts.add(a_header(in_ms=-61_000), "s", FinalOutcome.DELIVERED)
    receipts.add(b"foreign", "s", FinalOutcome.DELIVERED)
    assert await receipts.flush()
    assert board.calls == 0


async def test_what_could_not_be_told_is_told_later_in_its_order() -> None:
    board = Board()
    board.down = True
    async with posting(board) as receipts:
        receipts.add(a_header(1), "s", FinalOutcome.DELIVERED)
        await board.changed.wait(5)
        assert board.posted == {}
        receipts.add(a_header(2), "s", FinalOutcome.DELIVERED)
        board.down = False
        assert await receipts.flush()
    assert [each.number for each in board.posted[WAITER]] == [1, 2]


async def test_the_oldest_of_too_many_are_dropped() -> None:
    board = Board()
    board.down = True
    receipts = Receipts(board)
    receipts.add(a_header(0), "s", FinalOutcome.DELIVERED)
    assert not await receipts.flush()
    for number in range(1, WAITING_MAX + 1):
        receipts.add(a_header(number), "s", FinalOutcome.DELIVERED)
    assert not await receipts.flush()
    receipts.add(a_header(WAITING_MAX + 1), "s", FinalOutcome.DELIVERED)
    board.down = False
    assert await receipts.flush()
    numbers = [each.number for each in board.posted[WAITER]]
    assert numbers == [*range(2, WAITING_MAX + 2)]

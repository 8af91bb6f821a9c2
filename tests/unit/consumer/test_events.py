"""Events about a message say which one it is, and whose."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs

from app.domain.catalogue.topic import Ack
from app.domain.commit import Progress
from app.domain.discards.undelivered import Undelivered
from app.domain.errors import LogUnavailableError
from app.domain.message import Message, NewRecord, Partition, Record
from app.log.interface import Position
from tests.fakes.memory_log import MemoryLog
from workers.consumer.commit.cursor import Cursor
from workers.consumer.outcome.dead_letters import DeadLetterTopics
from workers.consumer.outcome.undelivered import UndeliveredStream

DISCARDED = Undelivered(
    subscription_id="s-1",
    topic="shop.orders",
    subscription="billing",
    message_id="m-1",
    discarded_at=datetime(2026, 1, 31, tzinfo=UTC),
    reason="no",
    status=400,
    attempts=1,
    partition=0,
    offset=7,
    body=b"x",
)
ABOUT = {"message_id": "m-1", "subscription": "shop.orders_billing"}


class DownLog(MemoryLog):
    """Takes nothing, and says when it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Sequence[Position]:
        del topic, records, ack
        self.asked.set()
        raise LogUnavailableError("it is down")


def said(logs: Sequence[object], event: str) -> dict[str, object]:
    (found,) = (each for each in logs if isinstance(each, dict) and each["event"] == event)
    return dict(found)


@pytest.mark.parametrize("dead_letter", [True, False])
async def test_a_message_that_cannot_be_put_aside_is_named(dead_letter: bool) -> None:  # noqa: FBT001 - a case
    log = DownLog()
    message = Message(Record(7, 0, None, b"x", [(b"id", b"m-1")]), Partition("shop.orders", 0))
    writing = (
        DeadLetterTopics(log).append(message, DISCARDED, "shop.dead")
        if dead_letter
        else UndeliveredStream(log).write(DISCARDED)
    )
    with capture_logs() as logs:
        task = asyncio.ensure_future(writing)
        await log.asked.wait()
        await asyncio.sleep(0)
        task.cancel()
    event = said(logs, "dead_letter_not_appended" if dead_letter else "undelivered_write_failed")
    assert ABOUT.items() <= event.items()


class Owner:
    def readable(self, cursor: Cursor) -> None: ...

    def moved(self, cursor: Cursor) -> None: ...


def test_a_cursor_that_is_rewound_says_whose_it_is() -> None:
    start = Progress(subscription_id="s-1", offset=9)
    with capture_logs() as logs:
        Cursor(Owner(), Partition("shop.orders", 0), start).rewind(3)
    event = said(logs, "cursor_rewound")
    assert (event["subscription_id"], event["at"], event["to"]) == ("s-1", 9, 3)

"""The parts that all consumers of a worker share."""

import asyncio
from typing import Protocol

from app.tracing.buffer import TraceBuffer
from workers.consumer.commit.cursor import Cursor
from workers.consumer.outcome.discard_handler import DiscardParts
from workers.consumer.schedule.suspension import Suspensions
from workers.consumer.source.message_source import SourceParts
from workers.delivery.circuits import Circuits
from workers.delivery.stall_watchdog import StallWatchdog
from workers.reading.reader import Reader


class ConsumerParts(SourceParts, DiscardParts, Protocol):
    """The parts that all consumers of a worker share."""

    tasks: asyncio.TaskGroup
    reader: Reader
    suspensions: Suspensions
    watchdog: StallWatchdog
    circuits: Circuits
    traces: TraceBuffer

    def moved(self, group: str, cursor: Cursor) -> None:
        """Commit the position of `cursor` soon, under the consumer group `group`."""

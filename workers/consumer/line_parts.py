"""What a delivery line stands on: its endpoint, and what all lines of a worker share."""

import asyncio
from typing import Protocol

from app.domain.delivery import Outcome
from app.domain.message import Message
from app.domain.subscription import Subscription
from app.tracing.buffer import TraceBuffer
from workers.consumer.cursor import Cursor
from workers.consumer.dead_letters import DeadLetters
from workers.consumer.intake import IntakeParts
from workers.consumer.undelivered import UndeliveredLog
from workers.delivery.circuits import Circuits
from workers.delivery.flight import InAir, Landing
from workers.delivery.pulse import Pulse
from workers.reading.reader import Reader


class Endpoint(Protocol):
    """Where a subscription's messages go."""

    def begin(self, message: Message, retry_count: int, landing: Landing) -> InAir | None:
        """Attempt it at once, if that takes no waiting: `landing` hears what came of it, later.

        None: nothing was done, and the attempt is to be awaited.
        """

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        """One POST within one deadline; never raises for what a subscriber or a network does."""


class BrokenEndpoint:
    """An endpoint that a defect of ours kept from being made: each attempt fails by that."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def begin(self, message: Message, retry_count: int, landing: Landing) -> None:
        """Nothing is begun: `attempt` raises the error."""

    async def attempt(self, message: Message, *, retry_count: int) -> Outcome:
        """Raise the error, as any defect in an attempt does."""
        del message, retry_count
        raise self._error.with_traceback(None)


class Suspensions(Protocol):
    """Who suspends subscriptions."""

    def suspend(self, subscription: Subscription, reason: str) -> None:
        """See to it that it is suspended, as long as nobody else changes it meanwhile."""


class LineParts(IntakeParts, Protocol):
    """What every line of a worker shares."""

    tasks: asyncio.TaskGroup
    reader: Reader
    undelivered: UndeliveredLog
    dead_letters: DeadLetters
    suspensions: Suspensions
    pulse: Pulse
    circuits: Circuits
    traces: TraceBuffer

    def moved(self, group: str, cursor: Cursor) -> None:
        """The cursor of `group` has something new to commit."""

    async def begin_life(self, group: str, cursor: Cursor) -> None:
        """Return when discards of `cursor` may be recorded, or it is abandoned."""

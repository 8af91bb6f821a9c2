"""The server's notices (NOTIFY). One connection of each process gets them for all listeners."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from app.domain.message import Partition
from app.log.postgres.connection import (
    CALL_SECONDS_MAX,
    CONNECTION_ERRORS,
    Backoff,
    Connection,
    Connector,
    bounded,
)
from app.outages import Outage

logger = structlog.get_logger(__name__)

CHANNEL: Final = "angelia_log"
APPENDED: Final = "r"
TOPICS: Final = "t"
MEMBERS: Final = "m"
_QUIET_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class Appended:
    """Records were appended to `partition`, which now ends at `end`."""

    partition: Partition
    end: int


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Topics or partitions were created or deleted."""


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """Members joined or left, subscribed to other topics, or released partitions."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Notices may have been lost while there was no connection, so anything may have changed."""


Notice = Appended | TopicsChanged | MembersChanged | Missed
Listener = Callable[[Notice], None]


def parsed(payload: str, namespace: str) -> Notice | None:
    """Return the notice in `payload` (`kind name …`), or None if it is of another namespace."""
    kind, name, *rest = payload.split(" ")
    if not name.startswith(namespace):
        return None
    if kind == APPENDED:
        index, end = rest
        return Appended(Partition(name.removeprefix(namespace), int(index)), int(end))
    return TopicsChanged() if kind == TOPICS else MembersChanged()


class Wakeups:
    """Passes each notice of the namespace to every listener, in the order of the commits.

    If the connection is lost, notices may be lost. Then `Missed` follows. Listeners also poll.
    """

    def __init__(self, connector: Connector, namespace: str) -> None:
        self._connector = connector
        self._namespace = namespace
        self._listeners: set[Listener] = set()
        self._outage = Outage(logger, "log_listen_failed")

    @contextmanager
    def notifying(self, listener: Listener) -> Iterator[None]:
        """Call `listener` for each notice while the block runs. The listener must not wait."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    async def run(self) -> None:
        """Listen until cancelled; connect again whenever the connection is lost."""
        backoff = Backoff()
        while True:
            try:
                await self._listen(backoff)
            except CONNECTION_ERRORS as error:
                self._outage.failed(error=str(error))
            await backoff.wait()

    async def _listen(self, backoff: Backoff) -> None:
        async with self._connector.connected("listen") as connection:
            with bounded(connection, CALL_SECONDS_MAX):
                await connection.execute(f"LISTEN {CHANNEL}".encode())
            backoff.reset()
            self._outage.ended()
            self._notify(Missed())
            while True:
                await self._receive(connection)
                # Test the connection, because it stays open even if the server hangs or becomes
                # read-only.
                await self._connector.probe(connection)

    async def _receive(self, connection: Connection) -> None:
        """Pass notices on to the listeners, until no notice has come for a while."""
        async for notify in connection.notifies(timeout=_QUIET_SECONDS_MAX):
            if notice := parsed(notify.payload, self._namespace):
                self._notify(notice)

    def _notify(self, notice: Notice) -> None:
        for listener in tuple(self._listeners):
            listener(notice)

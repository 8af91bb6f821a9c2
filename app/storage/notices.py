"""PostgreSQL's notifications (NOTIFY): hints that something may have changed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import psycopg
import structlog
from psycopg import AsyncConnection, sql

from app.outages import Outage
from app.postgres.connecting import Servers
from app.postgres.urls import DatabaseUrl, direct
from app.storage.sockets import sever

CHANGES: Final = "angelia_changes"
APPLIED: Final = "angelia_applied"
CIRCUITS: Final = "angelia_circuits"
JOBS: Final = "angelia_jobs"
PINGS: Final = "angelia_pings"
ACCESS: Final = "angelia_access"

CONNECT_TIMEOUT_S: Final = 2
# How long a connection may be silent before it is tested, in seconds.
PROBE_AFTER_S: Final = 15.0
# How long a tested connection may take to respond, in seconds.
_PROBE_TIMEOUT_S: Final = 2.0
# The shortest and the longest pause before a lost connection is opened again.
_BACKOFF_MIN_S: Final = 0.1
_BACKOFF_MAX_S: Final = 5.0

_log = structlog.get_logger()


class Notices:
    """Notifications on some channels; created by `listen`. Only one caller may wait at a time.

    A notification is a hint, and may stand for many changes. So the caller reads the data first,
    and then waits. A lost connection is opened again while a caller waits. Then all channels are
    reported, because a notification may have been missed. `receive` is called with each payload.
    """

    def __init__(
        self,
        url: DatabaseUrl,
        channels: Collection[str],
        *,
        receive: Callable[[str], None] | None = None,
    ) -> None:
        self._servers = Servers(direct(url))
        self._channels = frozenset(channels)
        self._receive = receive
        self._connection: AsyncConnection[Any] | None = None
        self._backoff_s = _BACKOFF_MIN_S
        self._outage = Outage(_log, "notices_unavailable")

    async def wait(self, timeout: timedelta) -> frozenset[str]:  # noqa: ASYNC109 - the end of the time is no error
        """Wait for a notification. Return the channels that were notified since the last call.

        The result is empty if no channel is notified within `timeout`.
        """
        return await self._wait_until(_now() + timeout.total_seconds())

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield each channel when it is notified, forever."""
        while True:
            for channel in sorted(await self._wait_until(float("inf"))):
                yield channel

    async def connect(self) -> bool:
        """Connect now instead of at the first `wait`. Return whether there is a connection."""
        try:
            self._connection = await self._listening()
        except (psycopg.Error, OSError) as exc:
            self._outage.failed(reason=_reason(exc), again_in_s=self._backoff_s)
            return False
        self._outage.ended()
        self._backoff_s = _BACKOFF_MIN_S
        return True

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _wait_until(self, deadline: float) -> frozenset[str]:
        while True:
            if self._connection is None:
                if await self._connected_by(deadline):
                    return self._channels
            elif notified := await self._received(self._connection, deadline):
                return notified
            if _now() >= deadline:
                return frozenset()

    async def _connected_by(self, deadline: float) -> bool:
        if await self.connect():
            return True
        await asyncio.sleep(max(0.0, min(self._backoff_s, deadline - _now())))
        self._backoff_s = min(self._backoff_s * 2, _BACKOFF_MAX_S)
        return False

    async def _received(self, connection: AsyncConnection[Any], deadline: float) -> frozenset[str]:
        """Wait for a notification. Return the channels that were notified.

        The result is empty at the deadline, or when it is time to test the connection. A lost
        connection is closed.
        """
        wait_s = max(0.0, min(PROBE_AFTER_S, deadline - _now()))
        try:
            received = [n async for n in connection.notifies(timeout=wait_s, stop_after=1)]
            notified = frozenset(each.channel for each in received)
            if self._receive is not None:
                for each in received:
                    self._receive(each.payload)
            if not notified and wait_s >= PROBE_AFTER_S:
                await self._probe(connection)
        except (psycopg.Error, OSError) as exc:
            _log.warning("notices_lost", reason=_reason(exc))
            await self.close()
            return frozenset()
        return notified

    async def _probe(self, connection: AsyncConnection[Any]) -> None:
        """Test the connection. Raise an error if it does not respond.

        If there is no response in time, the socket is closed, because a cancelled call would also
        wait for the server.
        """
        timer = asyncio.get_running_loop().call_later(_PROBE_TIMEOUT_S, sever, connection)
        try:
            await self._servers.probe(connection)
        finally:
            timer.cancel()

    async def _listening(self) -> AsyncConnection[Any]:
        connection = await self._servers.connect(
            seconds_max=CONNECT_TIMEOUT_S,
            autocommit=True,
            application_name="angelia-notices",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
        )
        try:
            for channel in sorted(self._channels):
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        except BaseException:
            await connection.close()
            raise
        return connection


@asynccontextmanager
async def listen(
    url: DatabaseUrl,
    channels: Collection[str],
    *,
    at_once: bool = True,
    receive: Callable[[str], None] | None = None,
) -> AsyncIterator[Notices]:
    """Listen on `channels`. All notifications after the start of the block are reported.

    Entering the block takes at most CONNECT_TIMEOUT_S, even if the database cannot be reached.
    Without `at_once`, the connection is opened at the first wait. This wait reports all channels.
    """
    notices = Notices(url, channels, receive=receive)
    if at_once:
        await notices.connect()
    try:
        yield notices
    finally:
        await notices.close()


def _reason(exc: Exception) -> str:
    return next(iter(str(exc).splitlines()), type(exc).__name__)


def _now() -> float:
    return asyncio.get_running_loop().time()

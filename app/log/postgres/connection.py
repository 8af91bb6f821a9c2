"""Connections to the PostgreSQL server that has the log.

There are time limits for opening a connection and for its use. After an error, a connection is
replaced by a new one.
"""

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg

from app.domain.errors import LogUnavailableError
from app.postgres.connecting import Servers
from app.postgres.urls import DatabaseUrl, direct

Connection = psycopg.AsyncConnection[tuple[Any, ...]]
T = TypeVar("T")

CONNECT_SECONDS_MAX: Final = 1.2
CALL_SECONDS_MAX: Final = 5.0
POOL_SIZE_MAX: Final = 4
_BACKOFF_SECONDS_MIN: Final = 0.05
_BACKOFF_SECONDS_MAX: Final = 1.0

# The errors that opening or using a connection may raise.
CONNECTION_ERRORS: Final = (psycopg.Error, OSError, TimeoutError)

# The settings of each session. Every statement of the log should use an index. Without statistics,
# PostgreSQL's planner may choose to read whole tables.
_SESSION: Final = """
SET enable_seqscan = off;
SET jit = off;
SET statement_timeout = '5s';
SET idle_in_transaction_session_timeout = '5s';
"""


class Connector:
    """Opens connections to one database, with autocommit and the log's session settings."""

    def __init__(self, database_url: DatabaseUrl) -> None:
        self._servers = Servers(direct(database_url))

    async def open(
        self, purpose: str, *, seconds_max: float = CONNECT_SECONDS_MAX, settings: str = ""
    ) -> Connection:
        """Open a connection. Its name on the server is `angelia-log-`, followed by `purpose`.

        Raises one of CONNECTION_ERRORS within `seconds_max`.
        """
        connection: Connection = await self._servers.connect(
            seconds_max=seconds_max,
            autocommit=True,
            application_name=f"angelia-log-{purpose}",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
        )
        try:
            with bounded(connection, seconds_max):
                await connection.execute((_SESSION + settings).encode())
        except BaseException:
            await connection.close()
            raise
        return connection

    async def probe(self, connection: Connection) -> None:
        """Check that the server responds and still accepts changes.

        If not, one of CONNECTION_ERRORS is raised.
        """
        with bounded(connection, CALL_SECONDS_MAX):
            await self._servers.probe(connection)

    @asynccontextmanager
    async def connected(self, purpose: str, *, settings: str = "") -> AsyncIterator[Connection]:
        """Open a connection for the duration of the block."""
        connection = await self.open(purpose, settings=settings)
        try:
            yield connection
        finally:
            await connection.close()


def one_line(error: BaseException) -> str:
    """Return the text of an error for publishers. Texts of libpq have line breaks and tabs."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def bounded(connection: Connection, seconds: float) -> Iterator[None]:
    """Close the socket after `seconds`, so that calls that wait for the server fail immediately.

    A cancellation would not be enough: psycopg would send a cancel request, and wait for a server
    that does not respond.
    """
    timer = asyncio.get_running_loop().call_later(seconds, sever, connection)
    try:
        yield
    finally:
        timer.cancel()


def sever(connection: Connection) -> None:
    """Close the socket of `connection`."""
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)


def cut_while_idle(connection: Connection) -> bool:
    """Return whether the server has closed `connection`, on which no query is running."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    # No query is running, so the server usually sends data only when it closes the connection. Any
    # readable data therefore counts as the end of the connection.
    return bool(poll.poll(0))


class Backoff:
    """Waits after failures: longer after each further failure, up to a second."""

    def __init__(self) -> None:
        self._seconds = _BACKOFF_SECONDS_MIN

    def reset(self) -> None:
        """Start again with the shortest wait."""
        self._seconds = _BACKOFF_SECONDS_MIN

    async def wait(self) -> None:
        """Wait longer than at the last call, up to a second."""
        seconds = self._seconds
        self._seconds = min(2 * seconds, _BACKOFF_SECONDS_MAX)
        await asyncio.sleep(seconds)


class PostgresConnections:
    """At most POOL_SIZE_MAX connections. They are opened when needed, and used again later."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._idle: list[Connection] = []
        # The connections that are closed after their use and not used again, because another server
        # may be the primary now.
        self._old: list[Connection] = []
        self._free = asyncio.Semaphore(POOL_SIZE_MAX)

    async def run(
        self,
        operation: Callable[[Connection], Awaitable[T]],
        *,
        seconds_max: float = CALL_SECONDS_MAX,
    ) -> T:
        """Run `operation` on a connection, and return its result.

        Raises:
            LogUnavailableError: The operation failed, or took longer than `seconds_max`.
        """
        deadline = asyncio.get_running_loop().time() + seconds_max
        try:
            async with asyncio.timeout_at(deadline):
                await self._free.acquire()
        except TimeoutError as error:
            raise LogUnavailableError("all connections to the log are busy") from error
        try:
            return await self._attempted(operation, deadline)
        except CONNECTION_ERRORS as error:
            raise LogUnavailableError(f"the log in PostgreSQL failed: {one_line(error)}") from error
        finally:
            self._free.release()

    async def close(self) -> None:
        """Close the connections that are not in use."""
        self.renew()
        await self._close_old()

    def renew(self) -> None:
        """Close the connections that are not in use, so that later calls open new ones."""
        self._old += self._idle
        self._idle.clear()

    async def _close_old(self) -> None:
        while self._old:
            await self._old.pop().close()

    async def _attempted(
        self, operation: Callable[[Connection], Awaitable[T]], deadline: float
    ) -> T:
        await self._close_old()
        while self._idle:
            connection = self._idle.pop()
            if not cut_while_idle(connection):
                return await self._on(connection, operation, deadline)
            await connection.close()
        seconds_left = deadline - asyncio.get_running_loop().time()
        connection = await self._connector.open(
            "calls", seconds_max=min(CONNECT_SECONDS_MAX, max(0.0, seconds_left))
        )
        return await self._on(connection, operation, deadline)

    async def _on(
        self,
        connection: Connection,
        operation: Callable[[Connection], Awaitable[T]],
        deadline: float,
    ) -> T:
        try:
            with bounded(connection, deadline - asyncio.get_running_loop().time()):
                result = await operation(connection)
        except BaseException:
            await connection.close()
            raise
        self._idle.append(connection)
        return result


@asynccontextmanager
async def running(*loops: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `loops` as tasks during the block, and cancel the tasks at the end of the block.

    An error of the block is raised unchanged. If a loop fails, the block ends with an
    ExceptionGroup.
    """
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(loop) for loop in loops]
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - raised again below, outside of the group
            failure = error
        finally:
            for task in started:
                task.cancel()
    if failure is not None:
        raise failure

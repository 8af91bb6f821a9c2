"""Opens connections to one of several servers."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg.errors import ConnectionTimeout

from app.domain.errors import StorageUnavailableError
from app.postgres.refusals import explained, unusable
from app.postgres.urls import DatabaseUrl, Parameters, must_be_writable, servers

AsyncConnection = psycopg.AsyncConnection[Any]

READ_ONLY: Final = "SHOW transaction_read_only"


class Servers:
    """The servers in a URL. The server of the last connection is tried first.

    If a server does not respond in time, the next connection is tried with another server first.
    """

    def __init__(self, url: DatabaseUrl) -> None:
        """Create a `Servers`.

        Raises:
            StorageUnavailableError: The URL is not a PostgreSQL URL.
        """
        self._url = url
        self._first = 0
        # Whether the server must accept changes. If so, a connection to a read-only server is
        # closed.
        self.writable = must_be_writable(url)

    async def connect(self, *, seconds_max: float, **options: Any) -> AsyncConnection:  # noqa: ANN401 - options of psycopg's connect
        """Open a connection.

        Raises:
            psycopg.OperationalError: No server can be used; the error has the reason in one line.
        """
        found = self._found()
        begin = current = self._first % len(found)
        refusals: list[str] = []
        kind = psycopg.OperationalError
        try:
            async with asyncio.timeout(seconds_max):
                for current in (*range(begin, len(found)), *range(begin)):
                    try:
                        return await self._connected(found, current, options)
                    except psycopg.OperationalError as error:
                        refusals.append(f"{address_of(found[current])} {explained(error)}")
        except TimeoutError:
            # Let the next connection try another server first. This is not needed if another
            # caller, which waited for the same server, has done it already.
            if self._first % len(found) == begin:
                self._first = current + 1
            refusals.append(
                f"{address_of(found[current])} does not answer within {seconds_max:g} s"
            )
            kind = ConnectionTimeout
        # Raise the error outside of the `except` block. Inside, it would refer to the caught error,
        # and that one refers to the unfinished connection. The connection is closed only when
        # nothing refers to it any more. If the error is part of a cycle, that is at the next
        # garbage collection. After many failed attempts, the server would have too many
        # connections.
        raise kind("; ".join(refusals))

    async def _connected(
        self, found: Sequence[Parameters], number: int, options: Mapping[str, Any]
    ) -> AsyncConnection:
        connection = await psycopg.AsyncConnection.connect(**_with(found[number], options))
        if problem := _problem(connection.info):
            await connection.close()
            raise psycopg.OperationalError(problem)
        self._first = number
        return connection

    async def probe(self, connection: AsyncConnection) -> None:
        """Check that the server of a connection responds, and accepts changes if that is required.

        Raises:
            psycopg.Error: The server does not respond, or has become read-only.
        """
        (answer,) = await (await connection.execute(READ_ONLY)).fetchall()
        if self.writable and answer[0] == "on":
            raise psycopg.OperationalError("the server has become read-only")

    def _found(self) -> Sequence[Parameters]:
        try:
            return servers(self._url)
        except StorageUnavailableError as error:
            # Raise the error of a failed connection. The URL is read for each connection, and may
            # have become invalid.
            raise psycopg.OperationalError(error.message) from error


def _with(server: Parameters, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a connection to the server, with Angelia's `options`.

    If both have a parameter, the one in `options` counts. Only for session settings (the parameter
    with the name `options`), both apply.
    """
    settings = [each["options"] for each in (server, options) if each.get("options")]
    joined = {"options": " ".join(settings)} if settings else {}
    return {**server, **options, **joined}


def address_of(server: Parameters) -> str:
    """Return the address of the server as text for users."""
    host = str(server.get("host") or server.get("hostaddr") or "localhost")
    return host if host.startswith("/") else f"{host}:{server.get('port') or 5432}"


def connected(url: DatabaseUrl, **options: Any) -> "psycopg.Connection[Any]":  # noqa: ANN401 - options of psycopg's connect
    """Open a connection for blocking calls.

    Raises:
        psycopg.OperationalError: No server can be used; the error has the reason in one line.
    """
    found = servers(url)
    refusals = []
    for server in found:
        try:
            return _connected(server, options)
        except psycopg.OperationalError as error:
            refusals.append(f"{address_of(server)} {explained(error)}")
    raise psycopg.OperationalError("; ".join(refusals))


def _connected(server: Parameters, options: Mapping[str, Any]) -> "psycopg.Connection[Any]":
    connection = psycopg.connect(**_with(server, options))
    if problem := _problem(connection.info):
        connection.close()
        raise psycopg.OperationalError(problem)
    return connection


def _problem(info: psycopg.ConnectionInfo) -> str:
    # The server reports both when a connection is opened. No query is needed.
    return unusable(info.server_version, info.parameter_status("server_encoding"))

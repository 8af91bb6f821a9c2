"""Opens connections to one of several servers."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg.errors import ConnectionTimeout

from app.domain.errors import StorageUnavailableError
from app.postgres.refusals import explained
from app.postgres.urls import DatabaseUrl, Parameters, must_be_writable, servers

AsyncConnection = psycopg.AsyncConnection[Any]

READ_ONLY: Final = "SHOW transaction_read_only"


class Servers:
    """The servers of a URL: the server of the last connection is tried first.

    A server that hangs is not tried first the next time, so it delays only one connection.
    """

    def __init__(self, url: DatabaseUrl) -> None:
        """Create a `Servers`.

        Raises:
            StorageUnavailableError: The URL is not one of PostgreSQL.
        """
        self._url = url
        self._first = 0
        # Whether a connection to a read-only server must be closed.
        self.writable = must_be_writable(url)

    async def connect(self, *, seconds_max: float, **options: Any) -> AsyncConnection:  # noqa: ANN401 - psycopg's
        """Open a connection.

        Raises:
            psycopg.OperationalError: There is none, for the reason in one line.
        """
        found = self._found()
        begin = current = self._first % len(found)
        refusals: list[str] = []
        try:
            async with asyncio.timeout(seconds_max):
                for current in (*range(begin, len(found)), *range(begin)):
                    try:
                        return await self._connected(found, current, options)
                    except psycopg.OperationalError as error:
                        refusals.append(f"{place_of(found[current])} {explained(error)}")
        except TimeoutError as error:
            # Of those that wait for the same server at once, the first one moves on for all.
            if self._first % len(found) == begin:
                self._first = current + 1
            refusals.append(f"{place_of(found[current])} does not answer within {seconds_max:g} s")
            raise ConnectionTimeout("; ".join(refusals)) from error
        raise psycopg.OperationalError("; ".join(refusals))

    async def _connected(
        self, found: Sequence[Parameters], number: int, options: Mapping[str, Any]
    ) -> AsyncConnection:
        connection = await psycopg.AsyncConnection.connect(**_with(found[number], options))
        self._first = number
        return connection

    async def probe(self, connection: AsyncConnection) -> None:
        """Check that the server of a connection responds, and is still suitable.

        Raises:
            psycopg.Error: It does not, or is not.
        """
        (answer,) = await (await connection.execute(READ_ONLY)).fetchall()
        if self.writable and answer[0] == "on":
            raise psycopg.OperationalError("the server has become read-only")

    def _found(self) -> Sequence[Parameters]:
        try:
            return servers(self._url)
        except StorageUnavailableError as error:
            # The URL is read again, and may have become invalid meanwhile.
            raise psycopg.OperationalError(error.message) from error


def _with(server: Parameters, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the URL's parameters with Angelia's in front; session settings are joined."""
    settings = [each["options"] for each in (server, options) if each.get("options")]
    joined = {"options": " ".join(settings)} if settings else {}
    return {**server, **options, **joined}


def place_of(server: Parameters) -> str:
    """Return the address of that server for users to read."""
    host = str(server.get("host") or server.get("hostaddr") or "localhost")
    return host if host.startswith("/") else f"{host}:{server.get('port') or 5432}"


def connected(url: DatabaseUrl, **options: Any) -> "psycopg.Connection[Any]":  # noqa: ANN401 - psycopg's
    """Open a connection for blocking calls.

    Raises:
        psycopg.OperationalError: There is none, as in `Servers`.
    """
    found = servers(url)
    refusals = []
    for server in found:
        try:
            return psycopg.connect(**_with(server, options))
        except psycopg.OperationalError as error:
            refusals.append(f"{place_of(server)} {explained(error)}")
    raise psycopg.OperationalError("; ".join(refusals))

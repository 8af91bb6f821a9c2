"""The server's side of a connection, without a network.

Tests give it bytes, and read its answers.
"""

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, cast

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.server import ServerState

from app.api.server.connection import BoundedConnection
from app.api.server.open_connections import OpenConnections
from app.api.server.whole_answers import sent_at_once
from tests.fakes.moved_time import MovedTime
from tests.fakes.sockets import Unread

_STATUS: Final = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")
# The maximum number of turns of the loop for all answers. One answer takes a few turns, and others
# may wait behind it.
_TURNS_MAX: Final = 200


class Request(NamedTuple):
    """A request that the application received."""

    method: str
    path: str
    body: bytes


class Reading(Unread):
    """The server's socket, as a transport. It remembers whether the server wants to read.

    Of the written bytes, the client has read all except the last `left`.
    """

    left = 0
    gone = False
    reads = True

    def get_write_buffer_size(self) -> int:
        return self.left

    def close(self) -> None:
        super().close()
        self.gone = self.gone or not self.left

    def abort(self) -> None:
        super().abort()
        self.gone = True

    def pause_reading(self) -> None:
        """Only remember the call: the test itself gives the server its data."""
        self.reads = False

    def resume_reading(self) -> None:
        """Only remember the call, as `pause_reading` does."""
        self.reads = True


class ApiConnection:
    """A connection to an application that answers each request with 201, when it has read the body.

    After `hold()`, no answer is sent until `release()`. After `hold_bodies()`, no body is read
    until then.

    Args:
        among: The limit of open connections that this connection counts for.
        time: The clock of the connection, which the test moves.
        at_once: Whether head and body of an answer are sent by one write.
        headers: The headers of each answer.
    """

    def __init__(
        self,
        among: OpenConnections | None = None,
        *,
        time: MovedTime | None = None,
        at_once: bool = False,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        self._at_once = at_once
        self._headers = headers
        # For each answer, whether its head and body were sent by one write.
        self.sent_at_once: list[bool] = []
        self.requests: list[Request] = []
        # The headers of each request.
        self.fields: list[list[tuple[bytes, bytes]]] = []
        # The sizes of the parts of bodies, as the application received them.
        self.pieces: list[int] = []
        self.socket = Reading()
        self._open = asyncio.Event()
        self._open.set()
        self._bodies = asyncio.Event()
        self._bodies.set()
        config = uvicorn.Config(
            self._serve, interface="asgi3", ws="none", log_config=None, proxy_headers=False
        )
        config.load()
        self._state = ServerState()
        loop = cast("asyncio.AbstractEventLoop | None", time)
        self._connection = BoundedConnection(config, self._state, {}, loop, among=among)
        self._connection.connection_made(self.socket)

    @property
    def statuses(self) -> list[int]:
        """The statuses of the answers so far."""
        return [int(status) for status in _STATUS.findall(self.socket.written)]

    @property
    def closed(self) -> bool:
        """Whether the server has closed the connection.

        The client may still read waiting answers.
        """
        return self.socket.closed

    @property
    def gone(self) -> bool:
        """Whether the connection is closed, and no answer waits to be read."""
        return self.socket.gone

    def hold(self) -> None:
        """Send no answers until `release`."""
        self._open.clear()

    def hold_bodies(self) -> None:
        """Read no bodies until `release`."""
        self._bodies.clear()

    def release(self) -> None:
        """Read bodies and send answers again."""
        self._bodies.set()
        self._open.set()

    def leave_unread(self, size: int) -> None:
        """Let `size` bytes of answers wait until the client reads them."""
        self.socket.left = size
        if size > HIGH_WATER_LIMIT:
            self._connection.pause_writing()
        elif size <= HIGH_WATER_LIMIT / 4:
            self._connection.resume_writing()

    async def say(self, parts: Iterable[bytes]) -> None:
        """Send these parts of requests in order, until the server closes the connection.

        After each part, the application has time to answer.
        """
        for part in parts:
            if self.closed:
                return
            self._connection.data_received(part)
            await self.settle()

    async def settle(self) -> None:
        """Wait until the application has done everything that it can do now."""
        for _ in range(_TURNS_MAX):
            # Four turns are enough for the application, for what it awaits, and for callbacks of
            # these.
            before = self._done()
            for _ in range(4):
                await asyncio.sleep(0)
            if before == self._done():
                return

    def _done(self) -> tuple[int, ...]:
        written = len(self.socket.written)
        return len(self.requests), len(self.pieces), written, len(self._state.tasks)

    async def end(self) -> None:
        """Close the connection from the client's side.

        Check that the server keeps nothing of it.
        """
        self.release()
        self._connection.connection_lost(None)
        await self.settle()
        assert not self._state.tasks
        assert not self._state.connections

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        await self._bodies.wait()
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            self.pieces.append(len(message.get("body", b"")))
            more = message.get("more_body", False)
        self.requests.append(Request(scope["method"], scope["path"], body))
        self.fields.append(list(scope["headers"]))
        await self._open.wait()
        headers = [*self._headers, (b"content-length", b"0")]
        if self._at_once:
            self.sent_at_once.append(sent_at_once(send, 201, headers=headers, body=b""))
            if self.sent_at_once[-1]:
                return
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body"})

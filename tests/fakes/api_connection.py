"""The server's side of a connection without a network: bytes in, answers out."""

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
# An answer takes a few turns of the loop; the rest is for those that wait behind it.
_TURNS_MAX: Final = 200


class Request(NamedTuple):
    """What the application was asked."""

    method: str
    path: str
    body: bytes


class Reading(Unread):
    """The socket of a server, which may be told to read nothing for a while.

    What is written is read at once, but for `left` bytes.
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
        """Nothing reads here by itself; it is only said."""
        self.reads = False

    def resume_reading(self) -> None:
        """The same."""
        self.reads = True


class ApiConnection:
    """A connection to an application that answers each request with 201, once it has its body.

    With `hold()` no answer is given until `release()`, and with `hold_bodies()` no body is read.
    Answers are sent head first, as ASGI has it, or `at_once`; they have the `headers`.
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
        # For each answer, whether it was sent at once.
        self.sent_at_once: list[bool] = []
        self.requests: list[Request] = []
        # Their headers.
        self.fields: list[list[tuple[bytes, bytes]]] = []
        # The sizes of what it read of bodies at a time.
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
        """The answers given so far."""
        return [int(status) for status in _STATUS.findall(self.socket.written)]

    @property
    def closed(self) -> bool:
        """Whether the server has closed it; it may be open until all is read."""
        return self.socket.closed

    @property
    def gone(self) -> bool:
        """Whether it is closed, and nothing of it is left."""
        return self.socket.gone

    def hold(self) -> None:
        """Keep answers back."""
        self._open.clear()

    def hold_bodies(self) -> None:
        """Let bodies wait."""
        self._bodies.clear()

    def release(self) -> None:
        """Read bodies, and give answers."""
        self._bodies.set()
        self._open.set()

    def leave_unread(self, size: int) -> None:
        """So many bytes of answers wait for the client now."""
        self.socket.left = size
        if size > HIGH_WATER_LIMIT:
            self._connection.pause_writing()
        elif size <= HIGH_WATER_LIMIT / 4:
            self._connection.resume_writing()

    async def say(self, parts: Iterable[bytes]) -> None:
        """Send these parts, with time to answer between them, until the server closes."""
        for part in parts:
            if self.closed:
                return
            self._connection.data_received(part)
            await self.settle()

    async def settle(self) -> None:
        """Let the application do all that it can do."""
        for _ in range(_TURNS_MAX):
            # The turns of the application, of what it awaits, and of what they have scheduled.
            before = self._done()
            for _ in range(4):
                await asyncio.sleep(0)
            if before == self._done():
                return

    def _done(self) -> tuple[int, ...]:
        written = len(self.socket.written)
        return len(self.requests), len(self.pieces), written, len(self._state.tasks)

    async def end(self) -> None:
        """The other side is gone; nothing may be left of it."""
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

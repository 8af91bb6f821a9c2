"""Simulated connections between workers and subscribers. Bytes take time, wait, or get lost.

The product's own transport runs on these connections: its pool, connections, parser and time limits
are real.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

from tests.simulation.batches import names_in
from tests.simulation.broadcast import subscription_of
from tests.simulation.conditions import Link, Service
from tests.simulation.history import (
    Addressed,
    Authorized,
    Batched,
    Broken,
    Heard,
    History,
    Sent,
    TokenAsked,
    TokenEnded,
    Unreached,
    copy_name,
)
from tests.simulation.virtual_loop import PROCESS, VirtualLoop, passes

# How often it is tried to send bytes in a direction that is cut off, in seconds. TCP repeats them,
# too.
AGAIN_S: Final = 0.5


class Request(NamedTuple):
    """A request as the worker wrote it. `message` is a message, or a batch."""

    number: int
    incarnation: str
    message: str
    retry_count: int
    body: bytes
    is_batch: bool = False
    token: str = ""


class Response(NamedTuple):
    """An answer that a subscriber sends."""

    payload: bytes
    status: int = 0
    retry_after: float | None = None
    # Whether the connection is closed after the answer.
    closes: bool = False


class Server(Protocol):
    """A subscriber in the network, or the provider of tokens."""

    name: str
    is_subscriber: bool

    def accepts(self) -> bool | None:
        """Whether the subscriber accepts a connection; None if it does not even refuse."""

    def on_request(self, request: Request, respond: Callable[[Response], None]) -> None:
        """Called when a request has arrived."""


class Network:
    """All subscribers, and the connections to them."""

    def __init__(self, loop: VirtualLoop, history: History, service: Service) -> None:
        self.history = history
        self.loop = loop
        self.servers: dict[tuple[str, int], Server] = {}
        # The addresses of each host that has several.
        self.hosts: dict[str, list[str]] = {}
        self.numbers = count(1)
        self.service = service
        self.open: list[Connection] = []

    def link(self, process: str, server: str) -> Link:
        """Return the state of the connections between a process and a subscriber."""
        return self.service.link(f"{process}>{server}")

    def way_s(self, link: Link) -> float:
        """Return the seconds that bytes take now, in one direction."""
        low, high = self.service.usual_s
        return self.loop.random.uniform(low, high) + link.extra_s * self.loop.random.random()

    async def connect(self, address: tuple[str, int]) -> "Connection":
        """Connect the running process to the subscriber at this address.

        Raises:
            ConnectionRefusedError: The subscriber refuses the connection.
        """
        server, begun = self.servers[address], self.loop.time()
        process = PROCESS.get(self.loop.outside).name
        link = self.link(process, server.name)
        try:
            while not link.reaches or server.accepts() is None:
                await passes(AGAIN_S)
            await passes(2 * self.way_s(link))
            _require_accepted(server)
        except (asyncio.CancelledError, ConnectionRefusedError):
            subscription = subscription_of(server.name)
            self.history.add(
                Unreached(at=self.loop.time(), worker=process, subscription=subscription)
            )
            raise
        connection = Connection(self, server, address=address, process=process)
        connection.begun, connection.connected_at = begun, self.loop.time()
        return connection

    def look_up(self, host: str) -> list[str]:
        """Return the addresses of a host, as a name server does."""
        return self.hosts[host]

    def is_one_of_several(self, address: str) -> bool:
        """Whether the host of this address has others."""
        return any(address in addresses for addresses in self.hosts.values())

    def reset(self, process: str, server: str) -> None:
        """Break all connections between the process and the subscriber."""
        for connection in [*self.open]:
            if (connection.process, connection.server.name) == (process, server):
                connection.broken(ConnectionResetError("reset by the network"))


def _require_accepted(server: Server) -> None:
    if not server.accepts():
        raise ConnectionRefusedError(f"{server.name} takes no connection")


class Connection(asyncio.Transport):
    """A connection: both the socket and the transport of the worker."""

    def __init__(
        self, network: Network, server: Server, *, address: tuple[str, int], process: str
    ) -> None:
        super().__init__()
        self.server = server
        self.process = process
        self._network = network
        self._address = address
        self._link = network.link(process, server.name)
        # The context in which callbacks run in the worker's process.
        self._context: Context = copy_context()
        self._protocol: asyncio.Protocol | None = None
        self._closing = False
        # When the worker began to connect, and when it was connected.
        self.begun = self.connected_at = 0.0
        self._asked: Request | None = None
        self._requests_at = self._answers_at = 0.0
        network.open.append(self)

    def transport_for(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        self._protocol = protocol
        return self

    # ---- for the worker -------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: object = None) -> Any:  # noqa: ANN401 - as asyncio
        return self._address if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        request = self._asked = self._read(bytes(data))
        if self.server.is_subscriber:
            self._record(request)
        else:
            self._record_token_request(request)
        self._forward(request)

    def _record(self, request: Request) -> None:
        history, at, number = self._network.history, self._network.loop.time(), request.number
        history.add(
            Sent(
                at=at,
                worker=self.process,
                incarnation=request.incarnation,
                request=number,
                message=request.message,
                retry_count=request.retry_count,
                begun=self._begun_at(at),
            )
        )
        if request.is_batch:
            messages, size = names_in(request.body), len(request.body)
            history.add(Batched(at=at, request=number, messages=messages, size=size))
        if self._network.is_one_of_several(self._address[0]):
            history.add(Addressed(at=at, request=number, address=self.server.name))
        if request.token:
            history.add(Authorized(at=at, request=number, token=request.token))

    def _record_token_request(self, request: Request) -> None:
        at = self._network.loop.time()
        self._network.history.add(
            TokenAsked(at=at, worker=self.process, request=request.number, begun=self._begun_at(at))
        )

    def _begun_at(self, at: float) -> float:
        """Return when a request began that is written now."""
        return self.begun if at == self.connected_at else at

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._closing:
            return
        self._closing = True
        if self in self._network.open:
            self._network.open.remove(self)
        self._unheard()
        if self._protocol is not None:
            self._network.loop.call_soon(
                self._protocol.connection_lost, error, context=self._context
            )

    def _unheard(self) -> None:
        request, self._asked = self._asked, None
        if request is not None and not self.server.is_subscriber:
            self._end_token_request(request, Response(b""))
        elif request is not None:
            self._network.history.add(
                Broken(
                    at=self._network.loop.time(),
                    request=request.number,
                    message=request.message,
                )
            )

    def _read(self, data: bytes) -> Request:
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines)
        batch = headers.get(b"Hermes-Batch-Id")
        message = batch or headers.get(b"Message-Id", headers.get(b"Hermes-Message-Id", b"?"))
        retries = int(headers.get(b"Hermes-Retry-Count", b"0"))
        retransmission = headers.get(b"Hermes-Retransmission", b"").decode()
        return Request(
            number=next(self._network.numbers),
            incarnation=first.split(b" ")[1].decode().removeprefix("/"),
            message=copy_name(message.decode(), retransmission),
            retry_count=retries,
            body=body,
            is_batch=batch is not None,
            token=headers.get(b"Authorization", b"").decode().removeprefix("Bearer "),
        )

    # ---- on the way -----------------------------------------------------------------------------

    def _forward(self, request: Request) -> None:
        loop = self._network.loop
        if self._link.requests_severed:
            loop.call_outside(AGAIN_S, self._forward, request)
            return
        self._requests_at = max(self._requests_at, loop.time() + self._network.way_s(self._link))
        loop.call_outside(self._requests_at - loop.time(), self._arrive, request)

    def _arrive(self, request: Request) -> None:
        """Give the request to the subscriber, even if the worker has closed the connection."""
        self.server.on_request(request, self._backward)

    def _backward(self, response: Response) -> None:
        loop = self._network.loop
        if self._link.answers_severed:
            loop.call_outside(AGAIN_S, self._backward, response)
            return
        self._answers_at = max(self._answers_at, loop.time() + self._network.way_s(self._link))
        loop.call_at(self._answers_at, self._received, response, context=self._context)

    def _received(self, response: Response) -> None:
        if self._closing or self._protocol is None:
            return
        if response.payload:
            if response.status and self._asked is not None:
                self._hear(self._asked, response)
            self._protocol.data_received(response.payload)
        if response.closes and not self._closing:
            self._protocol.eof_received()
            self._end(None)

    def _hear(self, request: Request, response: Response) -> None:
        self._asked = None
        if not self.server.is_subscriber:
            self._end_token_request(request, response)
            return
        self._network.history.add(
            Heard(
                at=self._network.loop.time(),
                request=request.number,
                message=request.message,
                status=response.status,
                retry_after=response.retry_after,
            )
        )

    def _end_token_request(self, request: Request, response: Response) -> None:
        self._network.history.add(
            TokenEnded(
                at=self._network.loop.time(),
                request=request.number,
                status=response.status,
                retry_after=response.retry_after,
            )
        )

    def broken(self, error: Exception) -> None:
        """Break the connection. The worker learns of it when its process runs."""
        self._network.loop.call_soon(self._end, error, context=self._context)

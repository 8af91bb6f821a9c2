"""The worker's side of an HTTP/2 connection, without a network: tests give it a server's bytes."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from h2.config import H2Configuration
from h2.connection import H2Connection

from tests.fakes.sockets import Unread
from workers.transport.deadline_timer import DeadlineTimer
from workers.transport.exchange import Exchange
from workers.transport.http2 import Http2Connection
from workers.transport.limits import STREAMS_MAX
from workers.transport.wire import request_start, whole_request

if TYPE_CHECKING:
    from workers.transport.answer import RawAnswer

REQUEST: Final = whole_request(request_start(b"POST", b"/", [(b"Host", b"h")]), [], b"{}")


class Tls:
    """That HTTP/2 was chosen."""

    def selected_alpn_protocol(self) -> str:
        return "h2"


class _Pool:
    streams_max = STREAMS_MAX

    def __init__(self) -> None:
        self.gone = False
        self.reports: list[str] = []

    def malformed(self) -> None:
        self.reports.append("malformed")

    def chose_http1(self) -> None:
        self.reports.append("HTTP/1.1")

    def released(self, connection: Http2Connection) -> None: ...

    def discard(self, connection: Http2Connection) -> None:
        del connection
        self.gone = True


class Client:
    """A connection with open requests. Each request must end with exactly one result."""

    def __init__(self, requests: int = 1) -> None:
        self.loop = asyncio.get_running_loop()
        self.deadline_timer = DeadlineTimer(self.loop)
        self.pool = _Pool()
        self.socket = Unread({"ssl_object": Tls()})
        self.connection = Http2Connection(self.pool, self.deadline_timer)
        self.connection.connection_made(self.socket)
        self.answers: list[asyncio.Future[RawAnswer]] = []
        for _ in range(requests):
            answer: asyncio.Future[RawAnswer] = self.loop.create_future()
            self.answers.append(answer)
            self.connection.start(Exchange(REQUEST, self.loop.time() + 10, answer))

    def feed(self, data: bytes, cuts: Sequence[int] = ()) -> None:
        places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        for start, end in pairwise(places):
            if not self.socket.closed:
                self.connection.data_received(data[start:end])

    def end(self) -> list[object]:
        """Close the connection from the server's side.

        Return the answer or the error of each request.
        """
        self.connection.connection_lost(None)
        assert len(self.deadline_timer) == 0
        assert self.pool.gone
        return [each.exception() or each.result() for each in self.answers]


def a_server() -> H2Connection:
    server = H2Connection(H2Configuration(client_side=False))
    server.initiate_connection()
    return server


def conversation(*, go_away: bool = False) -> bytes:
    """Return all bytes that a correct server sends to answer two requests.

    With `go_away`, the server then ends the connection (GOAWAY).
    """
    client, server = Client(requests=2), a_server()
    server.receive_data(client.socket.written)
    server.send_headers(1, [(":status", "103"), ("link", "<a>")])
    for stream in (1, 3):
        server.send_headers(stream, [(":status", "200"), ("x-a", "1")])
        server.send_data(stream, b"body", end_stream=True)
    said = server.data_to_send()
    if go_away:
        said += bytes((0, 0, 8, 7, 0, 0, 0, 0, 0)) + (1).to_bytes(4, "big") + bytes(4)
    client.end()
    return said

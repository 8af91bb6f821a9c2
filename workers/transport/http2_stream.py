"""One request on an HTTP/2 connection."""

from typing import Protocol

import httpx

from workers.transport.answer import RawAnswer
from workers.transport.exchange import PendingExchange


class NotProcessedError(httpx.RemoteProtocolError):
    """The other side did not process the request, so it may be sent again."""


class StreamConnection(Protocol):
    """The part of an HTTP/2 connection that its requests use."""

    peer: str

    def expire_stream(self, stream: "Stream") -> None:
        """End the request after its deadline."""

    def cancel(self, stream: "Stream") -> None:
        """End the cancelled request."""


class Stream:
    """One request on a connection, and its response. The deadline timer watches its deadline."""

    __slots__ = (
        "_owner",
        "begun_at",
        "body",
        "exchange",
        "headers",
        "id",
        "interim",
        "read",
        "status",
        "unsent",
    )

    def __init__(
        self, owner: StreamConnection, exchange: PendingExchange, *, number: int, begun_at: float
    ) -> None:
        self._owner = owner
        self.exchange = exchange
        self.id = number
        self.begun_at = begun_at
        self.unsent = b""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body: list[bytes] = []
        self.read = 0
        self.interim = 0

    @property
    def deadline(self) -> float:
        """Return the time at which `expire` must be called, in seconds of `loop.time()`."""
        return self.exchange.deadline

    @property
    def peer(self) -> str:
        """The remote side as `host:port`; empty if unknown."""
        return self._owner.peer

    def expire(self) -> None:
        """End the request after its deadline."""
        self._owner.expire_stream(self)

    def abort(self) -> None:
        """End the cancelled request."""
        self._owner.cancel(self)

    def answer(self, *, truncated: bool = False) -> RawAnswer:
        """Return the received response."""
        return RawAnswer(self.status, self.headers, b"".join(self.body), truncated)

"""The result of a ping."""

from pydantic import Field

from app.api.bodies.base import Schema
from app.domain.runtime.ping import Pong


class AnsweredHeader(Schema):
    """A header of a response."""

    name: str
    value: str


class TlsRead(Schema):
    """The TLS of a connection."""

    version: str = Field(examples=["TLSv1.3"])
    cipher: str


class PingRead(Schema):
    """The response of an endpoint to a test message."""

    delivered: bool = Field(description="whether such a response counts as delivered")
    status: int | None = Field(default=None, description="absent when there was no answer")
    reason: str | None = Field(default=None, description="why it would not have been delivered")
    latency_ms: float = Field(description="in all, on a connection of its own")
    headers: tuple[AnsweredHeader, ...] = ()
    address: str | None = Field(
        default=None, description="where the request went", examples=["192.0.2.7:443"]
    )
    protocol: str | None = Field(default=None, examples=["HTTP/1.1"])
    tls: TlsRead | None = None
    message_id: str
    worker: str = Field(description="who has sent it")

    @classmethod
    def of(cls, pong: Pong) -> "PingRead":
        """Return the response for `pong`."""
        return cls(
            delivered=pong.delivered,
            status=pong.status,
            reason=pong.reason or None,
            latency_ms=round(pong.seconds * 1000, 1),
            headers=tuple(AnsweredHeader(name=name, value=text) for name, text in pong.headers),
            address=pong.address or None,
            protocol=pong.protocol or None,
            tls=TlsRead(version=pong.tls.version, cipher=pong.tls.cipher) if pong.tls else None,
            message_id=pong.message_id,
            worker=pong.worker,
        )

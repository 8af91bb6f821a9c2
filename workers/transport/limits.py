"""Limits of the transport for itself and for the other side."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

# The bytes of a response body that are read. At this limit the connection is closed, and the status
# of the response counts.
BODY_MAX: Final = 64 * 1024
# The maximum size of status line and headers in bytes, including interim (1xx) responses.
HEAD_MAX: Final = 64 * 1024
# The maximum size of a whole response in bytes, including the framing of many tiny chunks, and
# trailers.
RECEIVED_MAX: Final = HEAD_MAX + 8 * BODY_MAX
# The maximum number of interim (1xx) responses to one request.
INTERIM_MAX: Final = 16
# The maximum number of requests at the same time on one HTTP/2 connection.
STREAMS_MAX: Final = 100
# The bytes that the other side of an HTTP/2 connection may leave unread while it causes more
# replies.
UNREAD_MAX: Final = 256 * 1024
# How many HTTP/2 frames with almost no content may come at once. A response takes about four; a
# busy server sends a few dozen more per second.
SMALL_FRAMES_MAX: Final = 1_000
# How many HTTP/2 frames with almost no content may come in each second, beyond SMALL_FRAMES_MAX.
SMALL_FRAMES_PER_S: Final = 100
# How many HTTP/2 frames with almost no content may come for each request, beyond these.
SMALL_FRAMES_PER_REQUEST: Final = 16
# The maximum number of HTTP/2 frames with almost no content from a server that acknowledges much
# data at once, such as a window of 16 MiB.
ACKNOWLEDGING_MAX: Final = 16_000
# From this size in bytes on, a part of a body does not count as a small frame.
LARGE_FRAME: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """Limits of one transport.

    Attributes:
        connections_max: The maximum number of connections to each origin. Further requests wait,
            each until its own deadline.
        idle_expiry: The time after which a connection without a request is closed.
        timeout: The total time of a request that sets none.
        close_grace: How long `aclose` lets requests in flight finish.
    """

    # Allow as many connections as a subscription may have requests in flight.
    connections_max: int = 10_000
    idle_expiry: timedelta = timedelta(seconds=30)
    timeout: timedelta = timedelta(seconds=10)
    close_grace: timedelta = timedelta(seconds=5)

"""Limits of the transport: for its own connections, and for what the other side may send."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

# The maximum number of bytes that are read of a response body. At this limit the connection is
# closed, and the response counts by its status.
BODY_MAX: Final = 64 * 1024
# The maximum size of status line and headers in bytes, including interim (1xx) responses.
HEAD_MAX: Final = 64 * 1024
# The maximum size of a whole response in bytes. It includes trailers, and the framing of a body
# with many tiny chunks.
RECEIVED_MAX: Final = HEAD_MAX + 8 * BODY_MAX
# The maximum number of interim (1xx) responses to one request.
INTERIM_MAX: Final = 16
# The maximum number of requests at the same time on one HTTP/2 connection.
STREAMS_MAX: Final = 100
# The maximum number of bytes that wait to be sent on an HTTP/2 connection. The other side reaches
# this limit if it causes replies without reading them.
UNREAD_MAX: Final = 256 * 1024
# How many HTTP/2 frames with almost no content may come at once. A response needs about four of
# these frames. A busy server sends a few dozen more per second.
SMALL_FRAMES_MAX: Final = 1_000
# How many further HTTP/2 frames with almost no content are allowed in each second.
SMALL_FRAMES_PER_S: Final = 100
# How many further HTTP/2 frames with almost no content are allowed for each request.
SMALL_FRAMES_PER_REQUEST: Final = 16
# The maximum number of HTTP/2 frames with almost no content from a server that acknowledges much
# data at once, such as a window of 16 MiB.
ACKNOWLEDGING_MAX: Final = 16_000
# A part of a body counts as a small HTTP/2 frame only if it has less than this number of bytes.
LARGE_FRAME: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """Limits of one transport.

    Attributes:
        connections_max: The maximum number of connections to each origin. Further requests wait,
            each until its own deadline.
        idle_expiry: The time after which a connection without a request is closed.
        connection_age: After this time a connection takes no more requests. So requests follow a
            host that gets other addresses.
        timeout: The total time of a request that sets no time of its own.
        close_grace: How long `aclose` lets requests in flight finish.
    """

    # This number is the maximum of the requests that a subscription may have in flight.
    connections_max: int = 10_000
    idle_expiry: timedelta = timedelta(seconds=30)
    connection_age: timedelta = timedelta(seconds=60)
    timeout: timedelta = timedelta(seconds=10)
    close_grace: timedelta = timedelta(seconds=5)

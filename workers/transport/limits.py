"""Limits of the transport for itself and for the other side."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

# Bytes of a response body that are read. At the limit the connection is closed, and the status
# counts.
BODY_MAX: Final = 64 * 1024
# Bytes of status line and headers, with those of interim (1xx) responses.
HEAD_MAX: Final = 64 * 1024
# Bytes of a whole response as received, with the framing of many tiny chunks, and trailers.
RECEIVED_MAX: Final = HEAD_MAX + 8 * BODY_MAX
# Interim (1xx) responses to one request.
INTERIM_MAX: Final = 16
# Requests at a time on one HTTP/2 connection, if the other side accepts as many.
STREAMS_MAX: Final = 100
# Bytes that the other side of HTTP/2 may leave unread while it sends more requests for replies.
UNREAD_MAX: Final = 256 * 1024
# Frames of HTTP/2 with almost no content: this many at once, this many per second, and this many
# more for each request. A response takes about four; a busy server sends a few dozen per second in
# addition.
SMALL_FRAMES_MAX: Final = 1_000
SMALL_FRAMES_PER_S: Final = 100
SMALL_FRAMES_PER_REQUEST: Final = 16
# The same for a server that acknowledges a large amount of data: a window of 16 MiB at once.
ACKNOWLEDGING_MAX: Final = 16_000
# A body part of this many bytes does not count as a small frame.
LARGE_FRAME: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """Limits of one transport.

    Attributes:
        connections_max: For each origin; requests beyond it wait, each until its own deadline.
        timeout: The total time of a request that does not bring its own.
        close_grace: How long `aclose` lets requests in flight finish.
    """

    # As many as a subscription may have in flight.
    connections_max: int = 10_000
    idle_expiry: timedelta = timedelta(seconds=30)
    timeout: timedelta = timedelta(seconds=10)
    close_grace: timedelta = timedelta(seconds=5)

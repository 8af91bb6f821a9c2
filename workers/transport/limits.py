"""What the transport allows itself and the other side."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

# Bytes of an answer's body that are read; then the connection is closed, and the status counts.
BODY_MAX: Final = 64 * 1024
# Bytes of status line and headers, interim (1xx) answers included.
HEAD_MAX: Final = 64 * 1024
# Bytes of a whole answer as received: with the framing of many tiny chunks, and trailers.
RECEIVED_MAX: Final = HEAD_MAX + 8 * BODY_MAX
# Interim (1xx) answers to one request.
INTERIM_MAX: Final = 16
# Requests at a time on one connection by HTTP/2, if the other side takes as many.
STREAMS_MAX: Final = 100
# Bytes that wait to be read by the other side of HTTP/2 while it goes on asking.
UNREAD_MAX: Final = 256 * 1024
# Frames of HTTP/2 that bring next to nothing: so many at once, so many a second, and so many more
# for each request. An answer takes about four, a busy server sends a few dozen a second beside.
SMALL_FRAMES_MAX: Final = 1_000
SMALL_FRAMES_PER_S: Final = 100
SMALL_FRAMES_PER_REQUEST: Final = 16
# The same of a server that acknowledges much that was sent to it: a window of 16 MiB at once.
ACKNOWLEDGING_MAX: Final = 16_000
# Bytes from which a part of a body is worth its frame.
LARGE_FRAME: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """Limits of one transport.

    `connections_max` is per origin; requests beyond it wait, each until its own deadline.
    `timeout` is the total time of a request that does not bring its own. `close_grace` is how
    long `aclose` lets requests in flight finish.
    """

    # As many as a subscription may have in flight.
    connections_max: int = 10_000
    idle_expiry: timedelta = timedelta(seconds=30)
    timeout: timedelta = timedelta(seconds=10)
    close_grace: timedelta = timedelta(seconds=5)

"""Responses that are written at once: head and body together.

ASGI sends head and body one after the other, and uvicorn searches each header for characters that
no header may have. For the short responses of publishing, these two things are a tenth of all work.
"""

from collections.abc import Sequence

from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

Headers = Sequence[tuple[bytes, bytes]]


def sent_at_once(send: Send, status: int, *, headers: Headers, body: bytes) -> bool:
    """Send a whole response by one write, and return whether it was sent.

    The response is sent only if `send` is the server's own function. A function around the server's
    function may change responses, or watch them. If the response was not sent, the caller sends it
    as usual. `headers` have lower-case names. They include the length of `body`, and nothing about
    the connection.

    Raises:
        RuntimeError: A header contains the end of a line.
    """
    cycle = getattr(send, "__self__", None)
    if not isinstance(cycle, RequestResponseCycle):
        return False
    if cycle.disconnected or cycle.response_started or cycle.flow.write_paused:
        return False
    parts = [STATUS_LINE[status]]
    for name, value in cycle.default_headers:
        parts += (name, b": ", value, b"\r\n")
    for name, value in headers:
        parts += (name, b": ", value, b"\r\n")
    if not cycle.keep_alive:
        parts.append(b"connection: close\r\n")
    parts.append(b"\r\n")
    head = b"".join(parts)
    lines = 2 + len(cycle.default_headers) + len(headers) + (not cycle.keep_alive)
    if head.count(b"\r") != lines or head.count(b"\n") != lines:
        raise RuntimeError("a header of the response contains the end of a line")
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(head + body)
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True

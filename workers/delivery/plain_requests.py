"""Builds requests that differ only in content type, id, retry count and body.

Most requests differ only in these parts.
"""

from app.domain.message import Message
from workers.delivery.request import PRINTABLE, RequestHeaders


class PlainRequests:
    """Builds a whole request for a plain message in one step.

    The result is the same as that of `RequestHeaders.of` and `whole_request`. A plain message has
    no headers of its own to propagate, and is not part of a retransmission. No header can contain a
    line break: `start` is checked, and only printable characters are inserted.
    """

    __slots__ = ("_form", "_keyed")

    def __init__(self, start: bytes, headers: RequestHeaders) -> None:
        self._keyed = headers.is_keyed
        lines = [b"Content-Type: %b", headers.id_name + b": %b", b"Hermes-Retry-Count: %d"]
        if self._keyed:
            lines.append(b"Idempotency-Key: %b")
        lines += [b"Content-Length: %d", b"", b"%b"]
        self._form = start.replace(b"%", b"%%") + b"\r\n".join(lines)

    def of(self, message: Message, body: bytes, retry_count: int) -> bytes:
        """Return the request for the message; `retry_count` is 0 for the first attempt."""
        kind, message_id = (
            message.content_type.translate(PRINTABLE),
            message.id.translate(PRINTABLE),
        )
        if self._keyed:
            return self._form % (kind, message_id, retry_count, message_id, len(body), body)
        return self._form % (kind, message_id, retry_count, len(body), body)

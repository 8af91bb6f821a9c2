"""Responses to publishers, sent without a framework."""

from http import HTTPStatus
from typing import Final, NamedTuple

import orjson
import structlog
from starlette.types import Send

from app.api.errors import RequestRefusedError, error_body, error_headers, status_of
from app.api.server.whole_answers import sent_at_once
from app.domain.errors import AngeliaError

_log = structlog.get_logger(__name__)

RawHeaders = list[tuple[bytes, bytes]]

INTERNAL_ERROR: Final = "Internal error"
_JSON: Final = (b"content-type", b"application/json")
_REQUEST_TIMEOUT: Final = int(HTTPStatus.REQUEST_TIMEOUT)


class Answer(NamedTuple):
    """A status, headers, and a body that is JSON or empty."""

    status: int
    headers: RawHeaders
    body: bytes = b""


def failure(error: Exception, message_id: bytes | None = None) -> Answer:
    """Return the response for any error.

    The text of an internal error is logged, and not shown.
    """
    if isinstance(error, AngeliaError):
        headers = [(key.encode(), value.encode()) for key, value in error_headers(error).items()]
        return Answer(status_of(error), headers, orjson.dumps(error_body(error)))
    if isinstance(error, RequestRefusedError):
        body = orjson.dumps({"message": error.message, "code": error.code})
        # Close the connection, so that a client that is too slow to send a body does not occupy it.
        over = error.status == _REQUEST_TIMEOUT
        return Answer(error.status, [(b"connection", b"close")] if over else [], body)
    about = {} if message_id is None else {"message_id": message_id.decode("latin-1")}
    _log.error("publish_broke", exc_info=error, **about)
    body = orjson.dumps({"message": INTERNAL_ERROR, "code": "OTHER"})
    return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, [], body)


async def send_answer(send: Send, answer: Answer) -> None:
    """Send the whole response."""
    status, headers, body = answer
    headers.append((b"content-length", b"%d" % len(body)))
    if body:
        headers.append(_JSON)
    # Only a response without an error is written as a whole, because some errors close the
    # connection.
    if status < HTTPStatus.BAD_REQUEST and sent_at_once(send, status, headers=headers, body=body):
        return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""`POST /topics/{topic}` as a raw ASGI application: the one route that must be lean."""

import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from uuid import uuid4

import orjson
import structlog
from starlette.types import Receive, Scope, Send

from app.api.body import ClientGoneError, Headers, header, read_body
from app.api.errors import RequestRefusedError, error_body, error_headers, status_of
from app.domain.errors import AngeliaError, TopicNotFoundError, ValidationFailedError
from app.services.directory import TopicDirectory
from app.services.publishing import Publication, Publisher, record_of

_log = structlog.get_logger(__name__)

# Printable ASCII without the dot, which separates the parts of a signed webhook (Standard Webhooks
# 1.0), and without spaces.
_OWN_ID: Final = re.compile(rb"[!-\-/-~]{1,128}")
_PROPAGATED: Final = (b"traceparent",)
_PREFIX: Final = "/topics/"


def published_topic(scope: Scope) -> str | None:
    """The topic that this path publishes to; None for any other path, whatever the method."""
    path: str = scope["path"]
    name = path[len(_PREFIX) :]
    return name if path.startswith(_PREFIX) and name and "/" not in name else None


class PublishRoute:
    """Stores a published body; every answer carries `Hermes-Message-Id`, errors too."""

    def __init__(self, directory: TopicDirectory, publisher: Publisher) -> None:
        self._directory = directory
        self._publisher = publisher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 once the log has the message, else the error."""
        topic = published_topic(scope) or ""
        headers: Headers = scope["headers"]
        message_id = str(uuid4()).encode()
        try:
            message_id = _own_id(headers) or message_id
            await self._store(topic, receive, message_id=message_id, headers=headers)
        except ClientGoneError:
            return
        except AngeliaError as error:
            body = error_body(error)
            await _answer(send, status_of(error), message_id, body=body, extra=error_headers(error))
        except RequestRefusedError as error:
            body = {"message": error.message, "code": error.code}
            await _answer(send, error.status, message_id, body=body)
        except Exception:  # noqa: BLE001 - whatever broke, the publisher gets an answer
            _log.exception("publish_broke", topic=topic)
            body = {"message": "Internal error", "code": "OTHER"}
            await _answer(send, HTTPStatus.INTERNAL_SERVER_ERROR, message_id, body=body)
        else:
            await _answer(send, HTTPStatus.CREATED, message_id)

    async def _store(
        self, name: str, receive: Receive, *, message_id: bytes, headers: Headers
    ) -> None:
        topic = self._directory.known(name) or await self._directory.get(name)
        body = await read_body(receive, headers, size_max=topic.message_size_max)
        publication = Publication(
            id=message_id,
            body=body,
            content_type=header(headers, b"content-type"),
            partition_key=header(headers, b"partition-key") or None,
            propagated=_propagated(headers),
        )
        try:
            await self._publisher.publish(topic, record_of(publication, now_ms=_now_ms()))
        except TopicNotFoundError:
            self._directory.forget(topic)
            raise


def _own_id(headers: Headers) -> bytes | None:
    given = header(headers, b"idempotency-key")
    if given is not None and not _OWN_ID.fullmatch(given):
        message = "must be 1 to 128 printable ASCII characters without spaces and '.'"
        raise ValidationFailedError.of("Idempotency-Key", message)
    return given


def _propagated(headers: Headers) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name, value) for name, value in headers if name in _PROPAGATED)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _answer(
    send: Send,
    status: int,
    message_id: bytes,
    *,
    body: Mapping[str, object] | None = None,
    extra: Mapping[str, str] | None = None,
) -> None:
    content = b"" if body is None else orjson.dumps(body)
    headers = [(b"hermes-message-id", message_id), (b"content-length", b"%d" % len(content))]
    if content:
        headers.append((b"content-type", b"application/json"))
    headers.extend((key.encode(), value.encode()) for key, value in (extra or {}).items())
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})

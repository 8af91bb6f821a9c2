"""Messages for `publish_batch`, and their requests (pure)."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

from angelia_client.errors import DUPLICATE, RefusedError
from angelia_client.messages import BatchResult
from angelia_client.requests import Request, json_of, topic_path

# The limits of one request. The service also refuses a single message above these limits.
MESSAGES_MAX: Final = 1_000
BYTES_MAX: Final = 8 * 1024 * 1024

_JSON_TYPE: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to publish. If `body` is bytes, the bytes must be JSON. Other values become JSON.

    `id` is the message's id: 1 to 128 printable ASCII characters without spaces and dots.
    """

    body: object
    key: str | None = None
    id: str | None = None


def requests_for(topic: str, messages: Iterable[object]) -> Iterator[Request]:
    """Yield the requests that publish `messages` in order. Each request is as large as possible."""
    for lines in _portions(map(_enveloped, messages)):
        yield Request(
            method="POST",
            path=f"{topic_path(topic)}/batch?envelope=true",
            body=b"[" + b",".join(lines) + b"]",
            headers={"Content-Type": _JSON_TYPE},
            # The request can be repeated, because each message has an id. The service recognises a
            # stored message by its id.
            repeatable=True,
        )


def results_in(error: RefusedError) -> list[BatchResult] | None:
    """Return the result of each message, if the error contains the results.

    Such an error means that no message was stored. Return None for an error about the whole
    request.
    """
    results = error.body.get("results")
    return [BatchResult.of(each) for each in results] if isinstance(results, list) else None


class GivenIds:
    """Remembers the message ids that the caller chose.

    The client makes all other ids, which are new.
    """

    def __init__(self) -> None:
        self._given: set[str] = set()

    def noted(self, messages: Iterable[object]) -> Iterator[object]:
        """Yield the messages, and remember the ids that the caller chose."""
        for each in messages:
            if isinstance(each, NewMessage) and each.id is not None:
                self._given.add(each.id)
            yield each

    def settled(self, result: BatchResult) -> BatchResult:
        """Return the result of a message, with one correction.

        If the message is a duplicate of itself, the result becomes "stored". A message is a
        duplicate of itself if an earlier request has stored it, but the response was lost, and the
        request was repeated. Results for ids that the caller chose stay as they are.
        """
        itself = result.code == DUPLICATE and result.duplicate_of == result.id
        if not itself or result.id in self._given:
            return result
        return replace(result, status=201, duplicate=True, code=None, message=None)


def body_of(message: object) -> bytes:
    """Return bytes unchanged, and any other value as JSON."""
    return message if isinstance(message, bytes) else json_of(message)


def _enveloped(message: object) -> bytes:
    new = message if isinstance(message, NewMessage) else NewMessage(body=message)
    envelope: Mapping[str, Any] = {"id": new.id or str(uuid4())}
    if new.key is not None:
        envelope = {**envelope, "key": new.key}
    # The body becomes the last member of the JSON object. Its bytes are appended unchanged.
    return json.dumps(envelope).encode()[:-1] + b',"message":' + body_of(new.body) + b"}"


def _portions(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    portion: list[bytes] = []
    size = 2
    for line in lines:
        if portion and (len(portion) == MESSAGES_MAX or size + len(line) + 1 > BYTES_MAX):
            yield portion
            portion, size = [], 2
        portion.append(line)
        size += len(line) + 1
    if portion:
        yield portion

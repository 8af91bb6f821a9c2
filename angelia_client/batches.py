"""Messages for `publish_batch`, and the requests they go in (pure)."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

from angelia_client.errors import DUPLICATE, RefusedError
from angelia_client.messages import BatchResult
from angelia_client.requests import Request, json_of, topic_path

# What one request may hold; a message that is larger alone is refused by the service.
MESSAGES_MAX: Final = 1_000
BYTES_MAX: Final = 8 * 1024 * 1024

_JSON_TYPE: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to be published: `body` is JSON already when it is bytes; else it becomes JSON.

    With `id` it has that one (1 to 128 printable ASCII characters without spaces and dots).
    """

    body: object
    key: str | None = None
    id: str | None = None


def requests_for(topic: str, messages: Iterable[object]) -> Iterator[Request]:
    """The requests that publish `messages`, in order, each as large as it may be."""
    for lines in _portions(map(_enveloped, messages)):
        yield Request(
            method="POST",
            path=f"{topic_path(topic)}/batch?envelope=true",
            body=b"[" + b",".join(lines) + b"]",
            headers={"Content-Type": _JSON_TYPE},
            # Each message has an id: what was stored already is known by it.
            repeatable=True,
        )


def results_in(error: RefusedError) -> list[BatchResult] | None:
    """The answers for single messages in an error that says that none was stored."""
    results = error.body.get("results")
    return [BatchResult.of(each) for each in results] if isinstance(results, list) else None


class GivenIds:
    """The ids that messages came with: all others are ours, and nobody else has them."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def noted(self, messages: Iterable[object]) -> Iterator[object]:
        """The messages, once their ids are noted."""
        for each in messages:
            if isinstance(each, NewMessage) and each.id is not None:
                self._given.add(each.id)
            yield each

    def settled(self, result: BatchResult) -> BatchResult:
        """As stored, if it is refused as a duplicate of itself: an answer was lost on the way."""
        itself = result.code == DUPLICATE and result.duplicate_of == result.id
        if not itself or result.id in self._given:
            return result
        return replace(result, status=201, duplicate=True, code=None, message=None)


def body_of(message: object) -> bytes:
    """Bytes as they are, anything else as JSON."""
    return message if isinstance(message, bytes) else json_of(message)


def _enveloped(message: object) -> bytes:
    new = message if isinstance(message, NewMessage) else NewMessage(body=message)
    envelope: Mapping[str, Any] = {"id": new.id or str(uuid4())}
    if new.key is not None:
        envelope = {**envelope, "key": new.key}
    # The body's own bytes, untouched, as the last member.
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

"""Headers and query parameters of a publish request."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import Scope

from app.api.body import Headers
from app.domain.catalogue.headers import AUTHORIZATION
from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.topic import Topic
from app.domain.errors import MessageTooLargeError, ValidationFailedError

# Allowed ids: printable ASCII without spaces. The dot is not allowed, because it separates the id
# from the other parts of the text that is signed for a webhook (Standard Webhooks 1.0).
_OWN_ID: Final = re.compile(rb"[!-\-/-~]{1,128}")
OWN_ID_RULE: Final = "must be 1 to 128 printable ASCII characters without spaces and '.'"

_CONTENT_TYPE: Final = b"content-type"
_JSON: Final = b"application/json"
# Nearly all requests have one of these. They need no closer look.
_USUAL: Final = (_JSON, None)
# Types of Avro are not meant: what a JSON topic stores under `avro/json` is plain JSON.
_JSON_TYPE: Final = re.compile(r"(?!avro/)[^/]+/(json|[^/]+\+json)")
_PARTITION_KEY: Final = b"partition-key"
_IDEMPOTENCY_KEY: Final = b"idempotency-key"
_AUTHORIZATION: Final = AUTHORIZATION.encode()
# The maximum size of all propagated headers together. It is the space of a record besides its body.
PROPAGATED_BYTES_MAX: Final = 8 * 1024
# The headers of W3C Trace Context. `tracestate` has no meaning without `traceparent`.
_TRACE: Final = frozenset({b"traceparent", b"tracestate"})
# The start of the names of headers that have a CloudEvent's attributes, in binary mode.
_EVENT_PREFIX: Final = b"ce-"
_FIRST: Final = frozenset({_CONTENT_TYPE, _PARTITION_KEY, _IDEMPOTENCY_KEY, _AUTHORIZATION})


class PublishHeaders:
    """The headers of a publish request, read in one pass.

    If a header is repeated, its first value counts.

    `given_id` is the id that the publisher sent, unchecked. `own_id` checks it.
    """

    __slots__ = ("_all", "authorization", "content_type", "given_id", "partition_key")

    def __init__(self, headers: Headers) -> None:
        self._all = headers
        first: dict[bytes, bytes] = {}
        for name, value in headers:
            if name in _FIRST:
                first.setdefault(name, value)
        self.content_type = first.get(_CONTENT_TYPE)
        self.partition_key = first.get(_PARTITION_KEY) or None
        self.given_id = first.get(_IDEMPOTENCY_KEY)
        self.authorization = first.get(_AUTHORIZATION)

    def value(self, name: bytes) -> bytes | None:
        """Return the value of the header with this lower-case name; the first one if repeated."""
        return next((value for key, value in self._all if key == name), None)

    def stored_type(self, topic: Topic) -> bytes | None:
        """Return the content type to store with a message of the topic.

        A message of a JSON topic is JSON, even if its publisher names another type. For example,
        curl sends `application/x-www-form-urlencoded` if it is told nothing.
        """
        given = self.content_type
        if given in _USUAL or topic.content_type is ContentType.AVRO:
            return given
        return given if _JSON_TYPE.fullmatch(media_type(given)) else _JSON

    def propagated(self, topic: Topic) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers that the topic propagates to its subscribers, also repeated headers.

        Their names are spelt as in the topic's `propagatedHeaders`.

        Raises:
            MessageTooLargeError: The headers are too large for the log.
        """
        names = _propagated_names(topic.propagated_headers)
        found = tuple(
            (names.get(name, name), value)
            for name, value in self._all
            if name in names or name.startswith(_EVENT_PREFIX)
        )
        if found and sum(len(name) + len(value) for name, value in found) > PROPAGATED_BYTES_MAX:
            message = f"The propagated headers are larger than {PROPAGATED_BYTES_MAX} bytes"
            raise MessageTooLargeError(message)
        return found


@lru_cache(maxsize=1024)
def _propagated_names(names: tuple[str, ...]) -> Mapping[bytes, bytes]:
    """Return the names to pass on, by their lower-case form, which received requests have."""
    spelt = {name.lower().encode("ascii"): name.encode("ascii") for name in names}
    ours = {name: name for name in spelt if name.startswith(_EVENT_PREFIX)}
    passed_on = spelt | ours | {name: name for name in _TRACE}
    passed_on.pop(_AUTHORIZATION, None)
    return passed_on


def is_own_id(given: bytes) -> bool:
    """Whether a publisher may choose this id for a message."""
    return _OWN_ID.fullmatch(given) is not None


def own_id(headers: PublishHeaders) -> bytes | None:
    """Return the id in `Idempotency-Key`, if there is one.

    Raises:
        ValidationFailedError: The value is not a valid id.
    """
    given = headers.given_id
    if given is not None and not is_own_id(given):
        raise ValidationFailedError.of("Idempotency-Key", OWN_ID_RULE)
    return given


def flag(scope: Scope, name: str) -> bool:
    """Parse a boolean query parameter. If the parameter is missing, the result is False.

    Raises:
        ValidationFailedError: The value is neither true nor false.
    """
    given = query_value(scope, name)
    if given not in {None, "true", "false"}:
        raise ValidationFailedError.of(name, "must be true or false")
    return given == "true"


def query_value(scope: Scope, name: str) -> str | None:
    """Return the value of a query parameter, the last one if repeated; None if it is missing."""
    query: bytes = scope["query_string"]
    if not query:
        return None
    return dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)).get(name)


@lru_cache(maxsize=256)
def media_type(content_type: bytes | None) -> str:
    """Return the media type without its parameters in lower case; empty if missing."""
    return (content_type or b"").partition(b";")[0].strip().lower().decode("latin-1")

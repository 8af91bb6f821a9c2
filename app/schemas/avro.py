"""Avro messages: decoding, validation, and conversion to and from JSON."""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import orjson

from app.domain.errors import MessageTooLargeError, ThroughputQuotaError
from app.schemas.avro_encoding import AvroWriter
from app.schemas.avro_reading import AvroReader
from app.schemas.avro_scalars import AvroWalk
from app.schemas.avro_types import AvroSchema
from app.schemas.avro_work import AvroExhaustedError, AvroTooLargeError, json_allowed
from app.schemas.problems import AvroError, MismatchError
from app.schemas.request_work import TOO_MUCH, RequestWork

# The name of a schema's field for metadata. Hermes adds this field, a map, to its messages. The
# JSON of a message never contains it.
METADATA: Final = "__metadata"
_EXHAUSTED: Final = "takes more work than a message of its size may to be read as JSON"
_TOO_LARGE_AS_AVRO: Final = "As Avro it is larger than the limit of {} bytes"
_NO_MAP: Final = object()
_TOO_LARGE: Final = "makes more values, or more JSON, than a message of its size may"


class AvroCodec:
    """Converts the messages of one schema between Avro's binary encoding and JSON."""

    def __init__(self, text: str) -> None:
        """Compile the schema.

        Raises:
            ValidationFailedError: The schema is not valid (field `schema`).
        """
        self.schema = AvroSchema(text)
        self._writer = AvroWriter(self.schema)
        self._reader = AvroReader(self.schema)
        # A message of at most this size cannot take more work than allowed.
        self.certain_size = self._reader.certain_size
        self._metadata = self._metadata_field()

    def value(self, body: bytes, work: RequestWork | None = None) -> Any:  # noqa: ANN401 - JSON can have any type
        """Return the value of the message in `body`, as Python objects.

        After the message, `body` may have no further bytes.

        Raises:
            AvroError: The bytes are not a message of the schema.
            ThroughputQuotaError: The work that is left for the whole request is too little.
        """
        return self._read(self._reader.value, body, work)

    def completed(
        self,
        body: bytes,
        *,
        metadata: dict[str, str],
        size_max: float = math.inf,
        work: RequestWork | None = None,
    ) -> bytes:
        """Check the message in `body`, and return it with `metadata` in its field for metadata.

        All other bytes stay as they are. The arguments, and the errors, are those of `binary`, but
        bytes that are not a message of the schema raise AvroError.
        """
        if self._metadata is None:
            self.json(body, work)
            return body
        value, (start, end) = self._read(self._marked, body, work)
        given = value[METADATA] if isinstance(value[METADATA], dict) else {}
        found = body[:start] + self._metadata.written({**given, **metadata}) + body[end:]
        self._dumped(value, len(body))
        if len(found) > size_max:
            raise MessageTooLargeError(_TOO_LARGE_AS_AVRO.format(size_max))
        return found

    def _marked(self, body: bytes, work: RequestWork | None) -> Any:  # noqa: ANN401 - JSON can have any type
        return self._reader.marked(body, METADATA, work)

    @staticmethod
    def _read(read: Callable[..., Any], body: bytes, work: RequestWork | None) -> Any:  # noqa: ANN401 - JSON can have any type
        """Return the result of `read`, a function of the reader. Translate its errors."""
        try:
            return read(body, work)
        except (EOFError, ValueError, OverflowError) as exc:
            raise AvroError(f"is not Avro of its schema: {_reason(exc)}") from exc
        except RecursionError as exc:
            raise AvroError("is not Avro of its schema: it is nested too deep") from exc
        except AvroExhaustedError as exc:
            if work is not None and work.is_spent:
                raise ThroughputQuotaError(TOO_MUCH) from exc
            raise AvroError(_EXHAUSTED) from exc
        except AvroTooLargeError as exc:
            raise AvroError(_TOO_LARGE) from exc

    def json(self, body: bytes, work: RequestWork | None = None) -> bytes:
        """Return the message in `body` as JSON.

        Raises:
            AvroError: The bytes are not a message of the schema.
            ThroughputQuotaError: The work that is left for the whole request is too little.
        """
        return self._dumped(self.value(body, work), len(body))

    def _dumped(self, value: Any, size: int) -> bytes:  # noqa: ANN401 - JSON can have any type
        """Return a message of `size` bytes of Avro as JSON, without its metadata."""
        if self._metadata and isinstance(value, dict):
            value.pop(METADATA, None)
        try:
            found = orjson.dumps(value)
        except (orjson.JSONEncodeError, RecursionError) as exc:
            raise AvroError(f"cannot be JSON: {exc}") from exc
        if len(found) > json_allowed(size):
            raise AvroError(_TOO_LARGE)
        return found

    def binary(
        self,
        value: Any,  # noqa: ANN401 - JSON can have any type
        *,
        wrapped: bool,
        metadata: dict[str, str],
        size: int = 0,
        size_max: float = math.inf,
        work: RequestWork | None = None,
    ) -> bytes:
        """Return the Avro bytes of a message that came as JSON.

        Args:
            value: the JSON value of the message.
            wrapped: whether the value is in Avro's own JSON encoding.
            metadata: the metadata of Hermes, such as the message id. It is added to the schema's
                field for metadata, if there is one.
            size: the size of the JSON in bytes.
            size_max: the maximum size of the result in bytes.
            work: the work that is left for the whole request; None: there is no limit for the
                request.

        Raises:
            MismatchError: The message does not match the schema, or its Avro bytes could not be
                decoded.
            MessageTooLargeError: The result has more than `size_max` bytes.
            ThroughputQuotaError: The work that is left for the whole request is too little.
        """
        if self._metadata and isinstance(value, dict):
            value = self._metadata.added(value, metadata, wrapped=wrapped)
        body, is_deep = self._writer.written(value, wrapped=wrapped, size=size, work=work)
        # Check the size of the Avro bytes before they are decoded for a test, because a small JSON
        # message can be large as Avro.
        if len(body) > size_max:
            raise MessageTooLargeError(_TOO_LARGE_AS_AVRO.format(size_max))
        if is_deep or len(body) > self.certain_size:
            self._require_readable(body, work)
        return body

    def _require_readable(self, body: bytes, work: RequestWork | None) -> None:
        """Check that the Avro bytes of a message can be decoded again.

        Raises:
            MismatchError: The bytes cannot be decoded. The message is refused now, because it would
                be lost later.
        """
        try:
            self.json(body, work)
        except AvroError as exc:
            raise MismatchError((), f"could not be read again: as Avro it {exc}") from exc

    def _metadata_field(self) -> "_MetadataField | None":
        """Return the schema's field for Hermes' metadata; None if it has none."""
        root, schema = self.schema.root, self.schema
        for field in schema.resolved(root)["fields"] if schema.kind_of(root) == "record" else ():
            if field["name"] != METADATA:
                continue
            is_union = isinstance(field["type"], list)
            for index, kind in enumerate(field["type"] if is_union else [field["type"]]):
                if schema.kind_of(kind) == "map" and schema.kind_of(kind["values"]) == "string":
                    return _MetadataField(index if is_union else None)
        return None


class _MetadataField(NamedTuple):
    """The field for metadata, a map of texts.

    `branch` is the index of the map in a union; None if the type of the field is the map itself. In
    Avro's own JSON encoding, a value of a union is written as `{"map": …}`.
    """

    branch: int | None

    def added(
        self, value: dict[str, Any], metadata: dict[str, str], *, wrapped: bool
    ) -> dict[str, Any]:
        """Return the JSON of a message with `metadata` in addition to what it has in the field.

        What it has there may be of a wrong type. Then the result is `value`, which is no message.
        """
        given, has_name = value.get(METADATA), wrapped and self.branch is not None
        if has_name and isinstance(given, dict):
            given = given["map"] if given.keys() == {"map"} else _NO_MAP
        if given is not None and not isinstance(given, dict):
            return value
        both = {**(given or {}), **metadata}
        return {**value, METADATA: {"map": both} if has_name else both}

    def written(self, metadata: dict[str, str]) -> bytes:
        """Return the field in Avro's binary encoding."""
        walk = AvroWalk(wrapped=False, steps=0, raw=False)
        if self.branch is not None:
            walk.number(self.branch)
        if metadata:
            walk.number(len(metadata))
        for name, text in metadata.items():
            walk.sized(name.encode())
            walk.sized(text.encode())
        walk.number(0)
        return bytes(walk.out)


def _reason(error: Exception) -> str:
    return str(error)[:200] or "it ends too early"

"""Avro messages: decoding, validation, and conversion to and from JSON."""

import math
from typing import Any, Final

import orjson

from app.domain.errors import MessageTooLargeError, ThroughputQuotaError
from app.schemas.avro_encoding import AvroWriter
from app.schemas.avro_reading import AvroReader
from app.schemas.avro_types import AvroSchema
from app.schemas.avro_work import AvroExhaustedError, AvroTooLargeError, json_allowed
from app.schemas.problems import AvroError, MismatchError
from app.schemas.request_work import TOO_MUCH, RequestWork

# The name of a schema's field for metadata. Hermes adds this field, a map, to its messages. The
# JSON of a message never contains it.
METADATA: Final = "__metadata"
_EXHAUSTED: Final = "takes more work than a message of its size may to be read as JSON"
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
        try:
            return self._reader.value(body, work)
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
        value = self.value(body, work)
        if self._metadata and isinstance(value, dict):
            value.pop(METADATA, None)
        try:
            found = orjson.dumps(value)
        except (orjson.JSONEncodeError, RecursionError) as exc:
            raise AvroError(f"cannot be JSON: {exc}") from exc
        if len(found) > json_allowed(len(body)):
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
            metadata: the metadata of Hermes, such as the message id. It is written if the schema
                has a field for metadata, and the message has no value for this field.
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
        if self._metadata and isinstance(value, dict) and METADATA not in value:
            metadata_value = (
                {self._metadata: metadata} if wrapped and self._metadata != METADATA else metadata
            )
            value = {**value, METADATA: metadata_value}
        body, is_deep = self._writer.written(value, wrapped=wrapped, size=size, work=work)
        # Check the size of the Avro bytes before they are decoded for a test, because a small JSON
        # message can be large as Avro.
        if len(body) > size_max:
            raise MessageTooLargeError(f"As Avro it is larger than the limit of {size_max} bytes")
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

    def _metadata_field(self) -> str | None:
        """Return the form of the schema's field for Hermes' metadata; None if there is no field.

        The result is METADATA if the field is a map. It is "map" if the field is a union that
        contains a map. In Avro's own JSON encoding, a value of this union is written as
        `{"map": …}`.
        """
        root, schema = self.schema.root, self.schema
        for field in schema.resolved(root)["fields"] if schema.kind_of(root) == "record" else ():
            if field["name"] != METADATA:
                continue
            kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
            for kind in kinds:
                if schema.kind_of(kind) == "map" and schema.kind_of(kind["values"]) == "string":
                    return "map" if isinstance(field["type"], list) else METADATA
        return None


def _reason(error: Exception) -> str:
    return str(error)[:200] or "it ends too early"

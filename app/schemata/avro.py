"""Avro messages: read, checked, and turned into JSON and back."""

import io
from decimal import Decimal
from typing import Any, Final

import fastavro
import orjson
from fastavro import _read_py

from app.schemata.avro_types import AvroSchema
from app.schemata.avro_writing import AvroWriter
from app.schemata.request_work import RequestWork

# Hermes keeps a map of this name in its messages; JSON never shows it.
METADATA: Final = "__metadata"


class AvroError(ValueError):
    """The bytes are no message of the schema."""


class AvroCodec:
    """One schema's messages, in binary and in JSON."""

    def __init__(self, text: str) -> None:
        """ValidationFailedError for `schema`."""
        self.schema = AvroSchema(text)
        self._writer = AvroWriter(self.schema)
        # In C, a message of a few kilobytes could be nested deeper than the stack, which ends the
        # process; in Python it is an error.
        recursive = self.schema.is_recursive
        self._read: Any = _read_py.schemaless_reader if recursive else fastavro.schemaless_reader
        self._metadata = self._metadata_field()

    def value(self, body: bytes) -> Any:  # noqa: ANN401 - a message is of any type
        """The message in `body`, which is nothing but it; AvroError."""
        stream = io.BytesIO(body)
        try:
            value = self._read(stream, self.schema.root, None)
        except (EOFError, ValueError, IndexError, TypeError, OverflowError, KeyError) as exc:
            raise AvroError(f"is not Avro of its schema: {_said(exc)}") from exc
        except RecursionError as exc:
            raise AvroError("is not Avro of its schema: it is nested too deep") from exc
        if stream.tell() != len(body):
            raise AvroError(f"is not Avro of its schema: it ends at byte {stream.tell()}")
        return value

    def json(self, body: bytes) -> bytes:
        """The message in `body` as JSON; AvroError."""
        value = self.value(body)
        if self._metadata and isinstance(value, dict):
            value.pop(METADATA, None)
        try:
            return orjson.dumps(value, default=_json_value)
        except (orjson.JSONEncodeError, RecursionError) as exc:
            raise AvroError(f"cannot be JSON: {exc}") from exc

    def binary(
        self,
        value: Any,  # noqa: ANN401 - JSON is of any type
        *,
        wrapped: bool,
        said: dict[str, str],
        size: int = 0,
        work: RequestWork | None = None,
    ) -> bytes:
        """A message in JSON, of `size` bytes, as Avro; MismatchError, ThroughputQuotaError.

        `wrapped`: it is in Avro's own JSON encoding. `said` goes into Hermes' metadata, where the
        schema has them and the message does not.
        """
        if self._metadata and isinstance(value, dict) and METADATA not in value:
            told = {self._metadata: said} if wrapped and self._metadata != METADATA else said
            value = {**value, METADATA: told}
        return self._writer.written(value, wrapped=wrapped, size=size, work=work)

    def _metadata_field(self) -> str | None:
        """How Hermes' metadata are wrapped, or their name; None where there are none."""
        root, schema = self.schema.root, self.schema
        for field in schema.resolved(root)["fields"] if schema.kind_of(root) == "record" else ():
            if field["name"] != METADATA:
                continue
            kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
            for kind in kinds:
                if schema.kind_of(kind) == "map" and schema.kind_of(kind["values"]) == "string":
                    return "map" if isinstance(field["type"], list) else METADATA
        return None


def _json_value(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Decimal):
        return format(value, "f")
    raise TypeError(type(value).__name__)


def _said(error: Exception) -> str:
    return str(error)[:200] or "it ends too early"

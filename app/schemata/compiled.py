"""Schemas compiled once, for as long as they are used."""

from functools import lru_cache
from hashlib import sha256
from typing import Final

from app.domain.schema import ContentType
from app.schemata.avro import AvroCodec
from app.schemata.json_schema import JsonSchema

# Versions that are in use at a time; others are compiled again when they are.
COMPILED_MAX: Final = 256


@lru_cache(maxsize=COMPILED_MAX)
def avro_codec(text: str) -> AvroCodec:
    """ValidationFailedError for `schema`."""
    return AvroCodec(text)


@lru_cache(maxsize=COMPILED_MAX)
def json_schema(text: str) -> JsonSchema:
    """ValidationFailedError for `schema`."""
    return JsonSchema(text)


def require_schema(kind: ContentType, text: str) -> None:
    """Return if a topic of that kind can have this schema; else ValidationFailedError."""
    if kind is ContentType.AVRO:
        avro_codec(text)
    else:
        json_schema(text)


def schema_id(kind: ContentType, text: str) -> int:
    """An id of 31 bits, the same for the same text wherever it is: none has to be given out."""
    digest = sha256(f"{kind.value}\0{text}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1 or 1

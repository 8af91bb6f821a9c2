"""Schemas compiled once, for as long as they are used."""

from collections.abc import Callable
from hashlib import sha256
from typing import Final, Generic, TypeVar

from app.domain.catalogue.schema import ContentType
from app.domain.errors import ValidationFailedError
from app.schemas.avro import AvroCodec
from app.schemas.json_schema import JsonSchema

# Texts that are kept; others are compiled again when they are used.
COMPILED_MAX: Final = 256

Made = TypeVar("Made")


class MadeOnce(Generic[Made]):
    """What is made of texts, or why nothing can be: kept for the newest of them."""

    def __init__(self, make: Callable[[str], Made]) -> None:
        self._make = make
        self._kept: dict[str, Made | ValidationFailedError] = {}

    def __contains__(self, text: str) -> bool:
        return text in self._kept

    def __call__(self, text: str) -> Made:
        """ValidationFailedError for `schema`."""
        found = self._kept.get(text)
        if found is None:
            found = self._keep(text)
        if isinstance(found, ValidationFailedError):
            raise ValidationFailedError(found.details)
        return found

    def _keep(self, text: str) -> Made | ValidationFailedError:
        found: Made | ValidationFailedError
        try:
            found = self._make(text)
        except ValidationFailedError as error:
            found = ValidationFailedError(error.details)
        while len(self._kept) >= COMPILED_MAX:
            self._kept.pop(next(iter(self._kept)), None)
        self._kept[text] = found
        return found


avro_codec: Final = MadeOnce(AvroCodec)
json_schema: Final = MadeOnce(JsonSchema)


def is_made(kind: ContentType, text: str) -> bool:
    """Whether `require_schema` answers at once."""
    return text in (avro_codec if kind is ContentType.AVRO else json_schema)


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

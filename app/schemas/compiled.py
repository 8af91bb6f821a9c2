"""Schemas compiled once, for as long as they are used."""

from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import Final, Generic, TypeVar

from app.domain.catalogue.schema import ContentType, require_length
from app.domain.errors import ValidationFailedError
from app.schemas.avro import AvroCodec
from app.schemas.json_schema import JsonSchema

# Texts that are kept; others are compiled again when they are used.
COMPILED_MAX: Final = 256
# Texts that are known to be no schemas.
REFUSED_MAX: Final = 64
_TOO_DEEP: Final = "is nested too deep, or too large, to be made ready"

Made = TypeVar("Made")
Kept = TypeVar("Kept")


class MadeOnce(Generic[Made]):
    """What is made of texts, or why nothing can be: kept for those that were used last."""

    def __init__(self, make: Callable[[str], Made]) -> None:
        self._make = make
        self._made: dict[str, Made] = {}
        # Apart: texts that are none shall not take the place of those that are in use.
        self._refused: dict[str, ValidationFailedError] = {}
        # Threads make schemas, too.
        self._changing = Lock()

    def __contains__(self, text: str) -> bool:
        return text in self._made or text in self._refused

    def __call__(self, text: str) -> Made:
        """ValidationFailedError for `schema`."""
        require_length(text)
        with self._changing:
            found = self._made.pop(text, None)
            if found is not None:
                self._made[text] = found
                return found
        if refused := self._refused.get(text):
            raise ValidationFailedError(refused.details)
        return self._new(text)

    def _new(self, text: str) -> Made:
        try:
            made = self._make(text)
        except ValidationFailedError as error:
            self._keep_refused(text, error)
            raise
        except (RecursionError, MemoryError) as error:
            refused = ValidationFailedError.of("schema", _TOO_DEEP)
            self._keep_refused(text, refused)
            raise refused from error
        with self._changing:
            _make_room(self._made, COMPILED_MAX)
            self._made[text] = made
        return made

    def _keep_refused(self, text: str, error: ValidationFailedError) -> None:
        with self._changing:
            _make_room(self._refused, REFUSED_MAX)
            self._refused[text] = ValidationFailedError(error.details)


def _make_room(kept: dict[str, Kept], limit: int) -> None:
    while len(kept) >= limit:
        del kept[next(iter(kept))]


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

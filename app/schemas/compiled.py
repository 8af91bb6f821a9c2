"""A cache of compiled schemas."""

from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from app.domain.catalogue.schema import ContentType, require_length
from app.domain.errors import ValidationFailedError

if TYPE_CHECKING:
    from app.schemas.avro import AvroCodec
    from app.schemas.json_schema import JsonSchema

# The number of schemas that are cached. Other schemas are compiled again when they are needed.
COMPILED_MAX: Final = 256
# The number of invalid texts whose errors are cached.
REFUSED_MAX: Final = 64
_TOO_DEEP: Final = "is nested too deep, or too large, to be made ready"

Made = TypeVar("Made")
Kept = TypeVar("Kept")


class MadeOnce(Generic[Made]):
    """Caches what a function makes from a text: an object or an error.

    If there are too many texts, those that were not used for the longest time are dropped.
    """

    def __init__(self, make: Callable[[str], Made]) -> None:
        self._make = make
        self._made: dict[str, Made] = {}
        # Errors have a cache of their own, so that invalid texts do not displace schemas in use.
        self._refused: dict[str, ValidationFailedError] = {}
        # A lock for the cache, because other threads prepare schemas too.
        self._changing = Lock()

    def __contains__(self, text: str) -> bool:
        return text in self._made or text in self._refused

    def __call__(self, text: str) -> Made:
        """Return the object that is made from the text.

        Raises:
            ValidationFailedError: The text is not valid (field `schema`).
        """
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


def _new_avro_codec(text: str) -> "AvroCodec":
    from app.schemas.avro import AvroCodec  # noqa: PLC0415 - fastavro, needed only for Avro

    return AvroCodec(text)


def _new_json_schema(text: str) -> "JsonSchema":
    from app.schemas.json_schema import JsonSchema  # noqa: PLC0415 - needed only for JSON Schemas

    return JsonSchema(text)


avro_codec: Final = MadeOnce(_new_avro_codec)
json_schema: Final = MadeOnce(_new_json_schema)


def is_made(kind: ContentType, text: str) -> bool:
    """Whether `require_schema` returns quickly, because its result is cached."""
    return text in (avro_codec if kind is ContentType.AVRO else json_schema)


def require_schema(kind: ContentType, text: str) -> None:
    """Check that a topic of that content type can have this schema.

    Raises:
        ValidationFailedError: The schema is not valid.
    """
    if kind is ContentType.AVRO:
        avro_codec(text)
    else:
        json_schema(text)


def schema_id(kind: ContentType, text: str) -> int:
    """Return an id of 31 bits that is always the same for the same text."""
    digest = sha256(f"{kind.value}\0{text}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1 or 1

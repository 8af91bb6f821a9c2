"""Converts JSON responses to Python values: names, times, and all other fields."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from angelia_client.errors import NotUnderstoodError

_UNIONS: Final = (Union, UnionType)
Read = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FromJson:
    """Says how a field is read from JSON.

    `name` is the field's name in JSON. It is needed only if this name is not the Python name in
    camel case (`statusCode` for `status_code`). `read` converts the JSON value.
    """

    name: str | None = None
    read: Read | None = None


def instant(text: str) -> datetime:
    """Parse a time in RFC 3339."""
    return datetime.fromisoformat(text)


def instant_of_ms(number: float) -> datetime:
    """Convert milliseconds since the epoch."""
    return datetime.fromtimestamp(number / 1000, UTC)


def instant_of_seconds(number: float) -> datetime:
    """Convert seconds since the epoch."""
    return datetime.fromtimestamp(number, UTC)


Instant = Annotated[datetime, FromJson(read=instant)]
InstantMs = Annotated[datetime, FromJson(read=instant_of_ms)]
InstantSeconds = Annotated[datetime, FromJson(read=instant_of_seconds)]
TopicName = Annotated[str, FromJson(name="topicName")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A JSON object in a response.

    `raw` has the whole object, with the fields that this client does not know. SCHEMA is the
    object's name in the API's document.
    """

    SCHEMA: ClassVar[str]

    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, answer: object) -> Self:
        """Return the value for a JSON object of a response.

        Raises:
            NotUnderstoodError: A field is missing, or has a wrong value.
        """
        if not isinstance(answer, dict):
            raise NotUnderstoodError(f"{cls.__name__}: the answer is no JSON object")
        try:
            read = {name: _value(answer, wanted) for name, wanted in fields_of(cls).items()}
        except KeyError as exc:
            raise NotUnderstoodError(f"{cls.__name__}: the answer has no {exc.args[0]}") from exc
        except (TypeError, ValueError, OverflowError) as exc:
            raise NotUnderstoodError(f"{cls.__name__}: {exc}") from exc
        return cls(raw=answer, **read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Says how the method `of` of a response class reads one field.

    If the field is `optional`, it may be missing in the JSON object. Its value is then None.
    """

    name: str
    read: Read
    optional: bool


def fields_of(kind: type[Answered]) -> Mapping[str, Field]:
    """Return the fields of a class of responses, by their Python names."""
    # Use a dict, and not `functools.cache`. Type checkers do not accept a class as a cached
    # argument.
    if kind not in _FIELDS:
        _FIELDS[kind] = _fields(kind)
    return _FIELDS[kind]


def _fields(kind: type[Answered]) -> Mapping[str, Field]:
    hints = get_type_hints(kind, include_extras=True)
    names = [name for name in hints if name not in {"raw", "SCHEMA"}]
    return {name: _field(name, hints[name]) for name in names}


_FIELDS: Final[dict[type[Answered], Mapping[str, Field]]] = {}


def camel(name: str) -> str:
    """Return a name such as `status_code` as JSON has it: `statusCode`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _field(name: str, hint: Any) -> Field:  # noqa: ANN401 - a type hint can have any type
    annotations = _annotations(hint)
    return Field(
        name=next((each.name for each in annotations if each.name), camel(name)),
        read=_reader(hint),
        optional=NoneType in get_args(_bare(hint)),
    )


def _value(answer: Mapping[str, Any], wanted: Field) -> Any:  # noqa: ANN401 - JSON can have any type
    value = answer.get(wanted.name) if wanted.optional else answer[wanted.name]
    return None if value is None and wanted.optional else wanted.read(value)


def _reader(hint: Any) -> Read:  # noqa: ANN401 - a type hint can have any type
    if custom := next((each.read for each in _annotations(hint) if each.read), None):
        return custom
    bare = _bare(hint)
    if _is_union(bare):
        return _reader(next(each for each in get_args(bare) if each is not NoneType))
    if get_origin(bare) is tuple:
        read = _reader(get_args(bare)[0])
        return lambda values: tuple(read(each) for each in values)
    if isinstance(bare, type) and issubclass(bare, Answered):
        return bare.of
    return _same


def _same(value: Any) -> Any:  # noqa: ANN401 - JSON can have any type
    return value


def _annotations(hint: Any) -> tuple[FromJson, ...]:  # noqa: ANN401 - a type hint can have any type
    if get_origin(hint) is Annotated:
        return tuple(each for each in hint.__metadata__ if isinstance(each, FromJson))
    return ()


def _bare(hint: Any) -> Any:  # noqa: ANN401 - a type hint can have any type
    return hint.__origin__ if get_origin(hint) is Annotated else hint


def _is_union(hint: Any) -> bool:  # noqa: ANN401 - a type hint can have any type
    return get_origin(hint) in _UNIONS

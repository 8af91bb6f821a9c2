"""Rules for all bodies: Hermes' names, strict types, merge patches, errors with all problems."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from app.api.bodies.nearest import nearest_field
from app.api.bodies.problems import problems_of, schema_in
from app.domain.errors import FieldProblem, FormatInvalidError, ValidationFailedError

JsonObject = dict[str, Any]

# The maximum number of unknown fields of a body that are compared with the known names. A body can
# have a great many unknown fields, and comparing takes time.
NEAREST_MAX: Final = 50


class Schema(BaseModel):
    """A JSON object with camelCase names. A value of another type is refused, never converted."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        serialize_by_alias=True,
        strict=True,
        frozen=True,
        # Each validator is built when the first body for its model arrives. Most processes use only
        # few of the models.
        defer_build=True,
    )

    def answered(self) -> JsonObject:
        """Return the JSON object without fields that are null, as Hermes does."""
        return self.model_dump(mode="json", exclude_none=True)


class OwnSchema(Schema):
    """An object that Hermes does not have: unknown fields are refused.

    Unknown fields of Hermes' own objects are ignored as in Hermes, because clients send them.
    """

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})


SchemaT = TypeVar("SchemaT", bound=Schema)
OwnT = TypeVar("OwnT", bound=OwnSchema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A field of Hermes or Angelia that is not supported yet.

    `harmless` says whether a value asks for what happens anyway. Such a value is accepted. All
    other values are refused if `refused` is true, because they would change deliveries or
    permissions. If `refused` is false, they are ignored, and the response says so.
    """

    harmless: Callable[[object], bool]
    refused: bool = False


def only(*values: object) -> Callable[[object], bool]:
    """Return a check that a value is one of `values`. In JSON, unlike in Python, 0 is not false."""
    return lambda given: any(type(given) is type(value) and given == value for value in values)


def off(given: object) -> bool:
    """Return whether the value is false: a check for fields where only false is harmless."""
    return given is False


def on(given: object) -> bool:
    """Return whether the value is true: a check for fields where only true is harmless."""
    return given is True


def never(_given: object) -> bool:
    """Return False: a check for fields where no value is harmless."""
    return False


UNKNOWN: Final = Unsupported(harmless=never)
UNKNOWN_HERE: Final = Unsupported(harmless=never, refused=True)


class Ignored(NamedTuple):
    """A field that had no effect, and the field that the sender may have meant."""

    path: str
    meant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFields:
    """The fields of a body that the body's model does not read, each with its dotted path."""

    read_only: frozenset[str] = frozenset()
    unsupported: Mapping[str, Unsupported] = field(default_factory=dict)


def checked(check: Callable[[str], str]) -> AfterValidator:
    """Return a Pydantic validator that calls `check`.

    If `check` raises a ValidationFailedError, the validator reports the problems in that error.
    """

    def validate(text: str) -> str:
        try:
            return check(text)
        except ValidationFailedError as exc:
            problem = "; ".join(item.message for item in exc.details)
            raise PydanticCustomError("invalid", "{problem}", {"problem": problem}) from exc

    return AfterValidator(validate)


def _storable(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("zero", "must be without zero characters")
    return text


Text = Annotated[str, AfterValidator(_storable)]
"""Any text that PostgreSQL can store."""


def json_object(body: object) -> JsonObject:
    """Return `body` if it is a JSON object.

    Raises:
        FormatInvalidError: The body is not an object.
    """
    if not isinstance(body, dict):
        message = "The body must be a JSON object"
        raise FormatInvalidError(message)
    return body


def merged(current: Mapping[str, Any], patch: Mapping[str, Any]) -> JsonObject:
    """Return `current` with `patch` applied, as in Hermes and RFC 7396.

    Objects are merged. Scalars and lists are replaced. null removes a field, which then gets its
    default.
    """
    result = dict(current)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            below = result.get(key)
            result[key] = merged(below if isinstance(below, dict) else {}, value)
        else:
            result[key] = value
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Additional rules for parsing a body.

    Attributes:
        others: The fields that a body may have besides the fields of its model.
        fixed: Fields that may be missing. If such a field is present, it must have exactly this
            value.
        strict: Whether fields that would be ignored are refused (`Prefer: handling=strict`).
    """

    others: OtherFields
    fixed: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False


def parse(model: type[SchemaT], body: Mapping[str, Any], rules: Rules) -> SchemaT:
    """Return `body` as an instance of `model`.

    Raises:
        ValidationFailedError: The body is invalid; the error lists all problems of the body.
    """
    problems = [
        *_refusals(model, body, rules),
        *(
            FieldProblem(path=name, message=f"must be {value}, as in the path, or absent")
            for name, value in rules.fixed.items()
            if body.get(name, value) != value
        ),
    ]
    try:
        valid = model.model_validate(body, by_alias=True, by_name=False)
    except ValidationError as exc:
        raise ValidationFailedError([*problems_of(model, exc), *problems]) from exc
    if problems:
        raise ValidationFailedError(problems)
    return valid


def parse_own(model: type[OwnT], body: Mapping[str, Any]) -> OwnT:
    """Return `body` as an instance of `model`, which is an object that only Angelia has.

    A field that `model` does not have is refused.

    Raises:
        ValidationFailedError: The body is invalid.
    """
    return parse(model, body, Rules(others=OtherFields()))


def ignored_fields(
    model: type[Schema], body: Mapping[str, Any], others: OtherFields
) -> tuple[Ignored, ...]:
    """Return the fields of `body` that have no effect, for the header `Angelia-Ignored-Fields`.

    For the first NEAREST_MAX of these fields, the result also has the name that the sender may have
    meant.
    """
    judged = _judged(model, merged({}, body), others)
    found = (other for other, verdict in judged if not verdict.refused)
    named = [Ignored(each.path, _meant(model, each, others)) for each in islice(found, NEAREST_MAX)]
    return (*named, *(Ignored(each.path) for each in found))


class _Other(NamedTuple):
    """A field in the body of a request that `model` does not read."""

    path: str
    value: object
    model: type[BaseModel]


def _refusals(model: type[Schema], body: Mapping[str, Any], rules: Rules) -> Iterator[FieldProblem]:
    judged = _judged(model, body, rules.others)
    refused = (other for other, verdict in judged if verdict.refused or rules.strict)
    for number, other in enumerate(refused):
        meant = _meant(model, other, rules.others) if number < NEAREST_MAX else None
        yield FieldProblem(path=other.path, message=_refusal(other.path, meant, rules.others))


def _refusal(path: str, meant: str | None, others: OtherFields) -> str:
    if path in others.unsupported:
        return "is not supported yet with this value"
    return f"is not a known field: did you mean {meant}?" if meant else "is not a known field"


def _meant(model: type[Schema], other: _Other, others: OtherFields) -> str | None:
    known = other.path in others.unsupported
    return None if known else nearest_field(model, other.model, other.path)


def _judged(
    model: type[Schema], body: Mapping[str, Any], others: OtherFields
) -> Iterator[tuple[_Other, Unsupported]]:
    for other in _other_values(model, body):
        if verdict := _verdict(other, others):
            yield other, verdict


def _verdict(other: _Other, others: OtherFields) -> Unsupported | None:
    if other.path in others.read_only:
        return None
    unknown = UNKNOWN_HERE if issubclass(other.model, OwnSchema) else UNKNOWN
    entry = others.unsupported.get(other.path, unknown)
    return None if entry.harmless(other.value) else entry


def _other_values(
    model: type[BaseModel], body: Mapping[str, Any], prefix: str = ""
) -> Iterator[_Other]:
    read = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    for key, value in body.items():
        path = f"{prefix}{key}"
        if key not in read:
            yield _Other(path, value, model)
        elif isinstance(value, dict | list) and (below := schema_in(read[key])):
            for inner_path, each in _objects(path, value):
                yield from _other_values(below, each, f"{inner_path}.")


def _objects(path: str, value: JsonObject | list[Any]) -> Iterator[tuple[str, JsonObject]]:
    """Yield each object in the value of a field, with its path.

    The value is one object, or a list with objects.
    """
    if isinstance(value, dict):
        yield path, value
        return
    for index, each in enumerate(value):
        if isinstance(each, dict):
            yield f"{path}.{index}", each

"""What all bodies share: Hermes' names, strict types, merge patch, and every problem at once."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from app.api.schemas.problems import problems_of, schema_in
from app.domain.errors import FieldProblem, FormatInvalidError, ValidationFailedError

JsonObject = dict[str, Any]


class Schema(BaseModel):
    """A JSON object with camelCase names; a value of another type is refused, never converted."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        serialize_by_alias=True,
        strict=True,
        frozen=True,
    )

    def answered(self) -> JsonObject:
        """As JSON, without its nulls (as Hermes does)."""
        return self.model_dump(mode="json", exclude_none=True)


SchemaT = TypeVar("SchemaT", bound=Schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A field of Hermes or of ours that is not supported yet.

    A `harmless` value says what is done anyway and is accepted. Any other value is refused when
    ignoring it would change what is delivered or who may do what (`refused`); else it is ignored,
    and said to be.
    """

    harmless: Callable[[object], bool]
    refused: bool = False


def only(*values: object) -> Callable[[object], bool]:
    """Whether a JSON value is one of `values` (in JSON, unlike in Python, 0 is not false)."""
    return lambda given: any(type(given) is type(value) and given == value for value in values)


def off(given: object) -> bool:
    """Only false is harmless."""
    return given is False


def on(given: object) -> bool:
    """Only true is harmless."""
    return given is True


def never(_given: object) -> bool:
    """No value is harmless."""
    return False


UNKNOWN: Final = Unsupported(harmless=never)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFields:
    """The fields of a body that its model does not read, by dotted path."""

    read_only: frozenset[str] = frozenset()
    unsupported: Mapping[str, Unsupported] = field(default_factory=dict)


def checked(check: Callable[[str], str]) -> AfterValidator:
    """A field that `check`, which raises ValidationFailedError, must accept."""

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
"""Any text but what PostgreSQL's cannot hold."""


def json_object(body: object) -> JsonObject:
    """`body`, if it is a JSON object; else FormatInvalidError."""
    if not isinstance(body, dict):
        message = "The body must be a JSON object"
        raise FormatInvalidError(message)
    return body


def merged(current: Mapping[str, Any], patch: Mapping[str, Any]) -> JsonObject:
    """`patch` applied to `current`, as Hermes does it and RFC 7396 has it.

    Objects are merged, scalars and lists replaced; null takes a field out, back to its default.
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
    """How a body is taken, besides its model.

    `fixed` fields may be absent but say nothing else than given here. `strict` (the client's
    `Prefer: handling=strict`) refuses what would be ignored.
    """

    others: OtherFields
    fixed: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False


def parse(model: type[SchemaT], body: Mapping[str, Any], rules: Rules) -> SchemaT:
    """`body` as `model`; ValidationFailedError with every problem it has."""
    problems = [
        FieldProblem(path=path, message=_refusal(path, rules.others))
        for path, verdict in _judged(model, body, rules.others)
        if verdict.refused or rules.strict
    ]
    problems += [
        FieldProblem(path=name, message=f"must be {value}, as in the path, or absent")
        for name, value in rules.fixed.items()
        if body.get(name, value) != value
    ]
    try:
        valid = model.model_validate(body)
    except ValidationError as exc:
        raise ValidationFailedError([*problems_of(model, exc), *problems]) from exc
    if problems:
        raise ValidationFailedError(problems)
    return valid


def ignored_paths(
    model: type[Schema], body: Mapping[str, Any], others: OtherFields
) -> tuple[str, ...]:
    """The fields of `body` that have no effect, for the header `Angelia-Ignored-Fields`."""
    given = merged({}, body)
    return tuple(path for path, verdict in _judged(model, given, others) if not verdict.refused)


def _judged(
    model: type[Schema], body: Mapping[str, Any], others: OtherFields
) -> Iterator[tuple[str, Unsupported]]:
    for path, value in _other_values(model, body):
        if verdict := _verdict(path, value, others):
            yield path, verdict


def _verdict(path: str, value: object, others: OtherFields) -> Unsupported | None:
    if path in others.read_only:
        return None
    entry = others.unsupported.get(path, UNKNOWN)
    return None if entry.harmless(value) else entry


def _refusal(path: str, others: OtherFields) -> str:
    known = path in others.unsupported
    return "is not supported yet with this value" if known else "is not a known field"


def _other_values(
    model: type[BaseModel], body: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, object]]:
    read = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    for key, value in body.items():
        path = f"{prefix}{key}"
        if key not in read:
            yield path, value
        elif isinstance(value, dict) and (below := schema_in(read[key])):
            yield from _other_values(below, value, f"{path}.")

"""Converts forms to the JSON of the API, and puts the errors of the API at their fields."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import groupby
from math import isfinite
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from app.api.body import MANAGEMENT_BODY_MAX, media_type, read_body
from app.console.api import ApiRefusedError, FieldError

_FORM: Final = "application/x-www-form-urlencoded"
# The maximum size of a sent form. A form needs up to three bytes for one character (`%20`), and has
# more than one field.
_BODY_MAX: Final = 4 * MANAGEMENT_BODY_MAX
_FIELDS_MAX: Final = 1_000


class SentForm:
    """The fields of a form that a reader has sent. The value of a missing field is empty."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = pairs

    def __getitem__(self, name: str) -> str:
        # Browsers end each line of a text with CR and LF. The CR is removed.
        text = next((value for known, value in self._pairs if known == name), "")
        return text.replace("\r\n", "\n")

    def __contains__(self, name: object) -> bool:
        return any(known == name for known, _ in self._pairs)

    def all(self, name: str) -> list[str]:
        """Return all values of the fields with this name."""
        return [value for known, value in self._pairs if known == name]


async def form_of(request: Request) -> SentForm:
    """Read the form from the body of the request.

    Raises:
        ApiRefusedError: The body is not a form, or has too many fields.
        MessageTooLargeError: The form is too large.
    """
    if media_type(request.headers.get("content-type")) != _FORM:
        status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        raise ApiRefusedError(status, f"A form must be {_FORM}")
    raw = await read_body(request.receive, request.headers.raw, size_max=_BODY_MAX)
    try:
        pairs = parse_qsl(
            raw.decode("ascii", "replace"),
            keep_blank_values=True,
            errors="replace",
            max_num_fields=_FIELDS_MAX,
        )
    except ValueError as exc:
        status = HTTPStatus.BAD_REQUEST
        raise ApiRefusedError(status, "The form has too many fields") from exc
    return SentForm(pairs)


def whole(text: str) -> Any:  # noqa: ANN401 - JSON can have any type
    """Parse a whole number. Return any other text unchanged: the API then refuses the field."""
    try:
        return int(text)
    except ValueError:
        return text


def decimal(text: str) -> Any:  # noqa: ANN401 - JSON can have any type
    """Parse a number. Return any other text unchanged: the API then refuses the field."""
    try:
        value = float(text)
    except ValueError:
        return text
    # JSON has no NaN and no infinity. They would be sent as null, which means no value.
    return value if isfinite(value) else text


def numbers(text: str) -> Any:  # noqa: ANN401 - JSON can have any type
    """Parse whole numbers that are separated by commas or blanks."""
    return [whole(each) for each in words_in(text)]


def words_in(text: str) -> list[str]:
    """Parse words that are separated by commas or blanks."""
    return text.replace(",", " ").split()


def json_object(text: str) -> Any:  # noqa: ANN401 - JSON can have any type
    """Parse JSON. Return any other text unchanged: the API then refuses the field."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def as_is(text: str) -> Any:  # noqa: ANN401 - JSON can have any type
    """Return the text unchanged."""
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a form. Its value becomes the field at `path` in the body of an API request.

    `kind` is text, number, area, check or choice. `read` converts the text that the reader entered
    to a JSON value. If the field is `optional` and empty, its value is null, so the API uses its
    default.
    """

    path: str
    label: str
    kind: str = "text"
    hint: str = ""
    unit: str = ""
    choices: Sequence[str] = ()
    read: Callable[[str], Any] = as_is
    optional: bool = False
    required: bool = False
    # The title above all fields of the same group.
    group: str = ""
    # False: no link has a value for this field, because the value may contain a secret, or because
    # nobody may set the former value again.
    linked: bool = True

    @property
    def in_links(self) -> bool:
        """Whether a link may have a value for this field. Links have no long texts."""
        return self.linked and self.kind != "area"

    def value(self, form: SentForm) -> Any:  # noqa: ANN401 - JSON can have any type
        """Return the value of the field in a sent form, as JSON."""
        if self.kind == "check":
            return self.path in form
        text = form[self.path] if self.kind == "area" else form[self.path].strip()
        return None if self.optional and not text else self.read(text)

    def shown(self, current: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON can have any type
        """Return the value of this field in `current`, as the form shows it."""
        value = at_path(current, self.path)
        if self.read is json_object and not isinstance(value, str):
            return json.dumps(value, indent=2, ensure_ascii=False) if value else ""
        if isinstance(value, list | tuple):
            return ", ".join(str(each) for each in value)
        if value is None:
            return False if self.kind == "check" else ""
        return value


def in_groups(fields: Sequence[Field]) -> Sequence[tuple[str, Sequence[Field]]]:
    """Return the titles of the groups, each with the fields of the group in their order."""
    return [(title, list(group)) for title, group in groupby(fields, key=lambda each: each.group)]


def body_of(fields: Sequence[Field], form: SentForm) -> dict[str, Any]:
    """Return the JSON object that has the values of all form fields."""
    body: dict[str, Any] = {}
    for each in fields:
        put(body, each.path, each.value(form))
    return body


def as_filled(fields: Sequence[Field], current: Mapping[str, Any]) -> SentForm:
    """Return what a browser sends if the reader changes nothing in a form that shows `current`."""
    pairs = []
    for each in fields:
        value = each.shown(current)
        if each.kind == "choice" and value not in each.choices:
            value = each.choices[0]
        if each.kind != "check" or value:
            pairs.append((each.path, str(value)))
    return SentForm(pairs)


def without_nulls(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body without its null fields. The API uses its defaults for missing fields."""
    below = {
        name: without_nulls(value) if isinstance(value, Mapping) else value
        for name, value in body.items()
        if value is not None
    }
    return {name: value for name, value in below.items() if value != {}}


def put(body: dict[str, Any], path: str, value: object) -> None:
    """Set the field at `path` in `body`. Dots separate the parts of the path."""
    *above, last = path.split(".")
    for name in above:
        body = body.setdefault(name, {})
    body[last] = value


def at_path(body: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401 - JSON can have any type
    """Return the field at `path` in `body`; None if there is no such field.

    Dots separate the parts of the path.
    """
    value: Any = body
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def is_same(one: object, other: object) -> bool:
    """Return whether two values of a form field mean the same.

    False, an empty text, an empty list and an empty object mean the same as no value. The number 0
    is a value.
    """
    return _or_none(one) == _or_none(other)


def _or_none(value: object) -> object:
    is_zero = value == 0 and not isinstance(value, bool)
    return value if value or is_zero else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problems:
    """The errors of the API about a form.

    `by_field` has the errors of each form field, by the field's path. `others` has all other
    errors, which are shown above the form.
    """

    by_field: Mapping[str, Sequence[str]] = field(default_factory=dict)
    others: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.by_field or self.others)

    def at(self, path: str) -> Sequence[str]:
        """Return the errors of the field at `path`."""
        return self.by_field.get(path, ())


NO_PROBLEMS: Final = Problems()


def problems_in(error: ApiRefusedError, paths: Sequence[str]) -> Problems:
    """Return the details of `error` by form field. `paths` are the paths of the fields.

    An error about a part of a field, such as one item of a list, belongs to the field.
    """
    found: dict[str, list[str]] = {}
    others = []
    for each in error.details or (FieldError("", error.message),):
        field_path = _field_of(each.path, paths)
        if field_path is None:
            others.append(f"{each.path} {each.message}" if each.path else each.message)
        else:
            inside = each.path.removeprefix(field_path).lstrip(".")
            found.setdefault(field_path, []).append(f"{inside} {each.message}".strip())
    return Problems(by_field=found, others=others)


def _field_of(path: str, paths: Sequence[str]) -> str | None:
    fits = [each for each in paths if path == each or path.startswith(f"{each}.")]
    return max(fits, key=len, default=None)

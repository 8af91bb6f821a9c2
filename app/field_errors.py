"""Texts that say what is wrong with a value. They replace the texts of the validation library."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

# The text for all kinds of errors that have no text of their own here.
UNFORESEEN: Final = "is not valid"

_LIBRARY_KINDS: Final = frozenset(get_args(ErrorType))
_WORDS: Final[Mapping[str, str]] = {
    "missing": "must be given",
    "extra_forbidden": "is not a known field",
    "none_required": "must be null",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a string",
    "string_unicode": "must be a string of Unicode characters",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "path_type": "must be a path",
    "ip_v4_network": "must be a network such as 10.0.0.0/8",
    "ip_v6_network": "must be a network such as fd00::/8",
}
_LEAST: Final[Mapping[str, str]] = {"string_too_short": "character", "too_short": "item"}
_MOST: Final[Mapping[str, str]] = {"string_too_long": "character", "too_long": "item"}

# The library checks the length of an optional text as that of any value. For lists it names these.
_OF_TEXTS: Final = "Value"


def error_text(error: ErrorDetails) -> str:
    """Return a text that says what the refused value must be.

    Errors of Angelia's own checks are returned unchanged.
    """
    kind, context = error["type"], error.get("ctx", {})
    if context.get("field_type") == _OF_TEXTS:
        kind = f"string_{kind}"
    if kind == "value_error":
        return str(context["error"])
    if noun := _LEAST.get(kind):
        return f"must have at least {_counted(context['min_length'], noun)}"
    if noun := _MOST.get(kind):
        return f"must have at most {_counted(context['max_length'], noun)}"
    if words := _WORDS.get(kind):
        return words.format_map(_plain(context))
    return UNFORESEEN if kind in _LIBRARY_KINDS else error["msg"]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _plain(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an error's text; whole numbers are written without `.0`."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in context.items()
    }

"""The cost of checking one value with each subschema of a JSON Schema, in nanoseconds.

The costs were measured with the slowest values for the engine that are known. Usual values cost
about half.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from app.schemas.patterns import PatternPrices

# The cost in ns of checking a value with a subschema, without the cost of its keywords.
_LOOK_NS: Final = 15
# The cost in ns of each keyword of a subschema. Some keywords have further costs.
_KEYWORD_NS: Final = 15
# The cost of comparing a number with a limit (such as `maximum`). A small whole number as limit
# costs less than any other limit.
_BOUND_NS: Final = 70
_LARGE: Final = 1 << 53
_HARD_BOUND_NS: Final = 600
# The cost of looking up a member by its name.
_NAME_NS: Final = 35
# The cost of converting a member's name to a text of the engine.
_MADE_NAME_NS: Final = 50
# The cost of checking the format of a text, without the cost of its characters.
_FORMAT_NS: Final = 100
# The cost of starting to match a text with a pattern.
_CALL_NS: Final = 60
# The cost of comparing a value with each value of a list (`const`, `enum`). If all values of the
# list are simple, the value is looked up in a table instead.
_COMPARED_NS: Final = 200
# The cost of comparing a fractional number with the whole numbers of a list: a fixed cost, and a
# cost for each whole number.
_FRACTION_NS: Final = 750
_COMPARED_WHOLE_NS: Final = 20
_COMPARED_FLOAT_NS: Final = 1_200
_WHOLE_MULTIPLE_NS: Final = 350
_MULTIPLE_NS: Final = 1_100
_EXTREME_MULTIPLE_NS: Final = 35_000
# The cost of checking that items are unique, for each item. Up to fifteen items are compared with
# each other.
_UNIQUE_NS: Final = 500
_BELOW_UNIQUE_NS: Final = 200
_CONTAINED_NS: Final = 180
_UNEVALUATED_NS: Final = 20
# The cost of reporting one error of a message.
_ERROR_NS: Final = 20_000
# The cost of each character of the schema that an error quotes.
_QUOTED_NS: Final = 40
# The cost of checking the format of a text, for each character. Slow formats have a higher cost.
_CHARACTER_NS: Final = 20
_HARD_CHARACTER_NS: Final = 50
_HARD_FORMATS: Final = frozenset({"idn-hostname", "idn-email", "hostname", "regex"})

_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LENGTHS: Final = ("minLength", "maxLength")
_DEPENDENT: Final = ("dependentRequired", "dependentSchemas", "dependencies")
_QUOTED: Final = ("const", "enum", "not")
_MEMBERS: Final = ("properties", "additionalProperties", "unevaluatedProperties", "prefixItems")
_ITEMS: Final = ("items", "unevaluatedItems")


class Price(NamedTuple):
    """The cost of checking a value with a subschema, in ns.

    Attributes:
        value: for each value.
        text: for each text, in addition.
        number: for each number, in addition.
        extreme: for each number, in addition, if the message has very large or very small numbers.
        child: for each member or item of the value.
        below: for each value at any level below the value.
        character: for each character of a text.
        name: for each character of the members' names.
        error: for reporting all errors.
        errors: not a cost, but the maximum number of errors.
    """

    value: float = 0
    text: float = 0
    number: float = 0
    extreme: float = 0
    child: float = 0
    below: float = 0
    character: float = 0
    name: float = 0
    error: float = 0
    errors: float = 0

    def times(self, count: float) -> "Price":
        """Return the cost of checking the same value that many times."""
        return Price(*(each * count for each in self))


FREE: Final = Price()


def added(prices: Iterable[Price]) -> Price:
    """Return the cost of checking the same value with several subschemas."""
    return Price(*map(sum, zip(FREE, *prices, strict=True)))


def highest(prices: Iterable[Price]) -> Price:
    """Return, for each field of a cost, the maximum of this field in `prices`."""
    return Price(*map(max, zip(FREE, *prices, strict=True)))


def price_of(schema: Mapping[str, Any], patterns: PatternPrices) -> Price:
    """Return the cost of the subschema `schema`, without the subschemas inside it."""
    errors = len(schema) + len(_listed(schema.get("required"))) + _dependents(schema)
    quoted = sum(len(orjson.dumps(schema[name])) for name in _QUOTED if name in schema)
    return added(
        (
            Price(value=_LOOK_NS + _KEYWORD_NS * len(schema)),
            Price(error=errors * _ERROR_NS + quoted * _QUOTED_NS, errors=errors),
            _of_names(schema),
            _of_children(schema, patterns),
            _of_texts(schema, patterns),
            _of_numbers(schema),
            *(_compared(given) for given in _compared_with(schema)),
        )
    )


def unevaluated(below: Mapping[str, Any]) -> Price:
    """Return the cost of finding out whether the branch `below` evaluates each member or item."""
    patterns = len(_named(below.get("patternProperties")))
    return Price(value=_UNEVALUATED_NS, child=_UNEVALUATED_NS + _CALL_NS * patterns)


def of_names(names: Price) -> Price:
    """Return the cost of checking the names of all members. `names` is the cost of one name."""
    return Price(child=names.value + names.text + _MADE_NAME_NS, name=names.character)


def _of_names(schema: Mapping[str, Any]) -> Price:
    names = len(_listed(schema.get("required"))) + _dependents(schema)
    return Price(value=_NAME_NS * names)


def _dependents(schema: Mapping[str, Any]) -> int:
    given = [_named(schema.get(name)) for name in _DEPENDENT]
    return sum(1 + len(_listed(each)) for named in given for each in named.values())


def _of_children(schema: Mapping[str, Any], patterns: PatternPrices) -> Price:
    named = _named(schema.get("patternProperties"))
    child = _CALL_NS * len(named) + sum(_NAME_NS for name in _MEMBERS if name in schema)
    child += sum(_LOOK_NS for name in _ITEMS if name in schema)
    child += _CONTAINED_NS * ("contains" in schema)
    is_unique = schema.get("uniqueItems") is True
    return Price(
        child=child + _UNIQUE_NS * is_unique,
        below=_BELOW_UNIQUE_NS * is_unique,
        name=sum(patterns.of(each, schema) for each in named),
    )


def _of_texts(schema: Mapping[str, Any], patterns: PatternPrices) -> Price:
    text, character = 0, sum(name in schema for name in _LENGTHS)
    if isinstance(pattern := schema.get("pattern"), str):
        text, character = _CALL_NS, character + patterns.of(pattern, schema)
    if "format" in schema:
        is_hard = schema["format"] in _HARD_FORMATS
        text += _FORMAT_NS
        character += _HARD_CHARACTER_NS if is_hard else _CHARACTER_NS
    return Price(text=text, character=character)


def _of_numbers(schema: Mapping[str, Any]) -> Price:
    bounds = [schema[name] for name in _BOUNDS if name in schema]
    number = sum(_BOUND_NS if _is_simple(each) else _HARD_BOUND_NS for each in bounds)
    extreme = 0
    if "multipleOf" in schema:
        multiple = schema["multipleOf"]
        is_whole = isinstance(multiple, int) or float(multiple).is_integer()
        is_extreme = not is_whole and multiple < 1e-9  # noqa: PLR2004 - True is not a number here
        number += _WHOLE_MULTIPLE_NS if is_whole else _MULTIPLE_NS
        extreme = 1_200 if is_whole else _EXTREME_MULTIPLE_NS
        number += _EXTREME_MULTIPLE_NS * is_extreme
    return Price(number=number, extreme=extreme)


def _is_simple(number: float) -> bool:
    return abs(number) < _LARGE and float(number).is_integer()


def _compared_with(schema: Mapping[str, Any]) -> Iterable[list[Any]]:
    yield _listed(schema.get("enum"))
    if "const" in schema:
        yield [schema["const"]]


def _compared(values: list[Any]) -> Price:
    """Return the cost of comparing a value with all of `values` (`const`, `enum`)."""
    if all(isinstance(each, str | int | None) for each in values):
        whole = sum(type(each) is int for each in values)
        return Price(number=_COMPARED_WHOLE_NS * whole + _FRACTION_NS * (whole > 0))
    floats = others = 0
    waiting = list(values)
    while waiting:
        each = waiting.pop()
        floats, others = floats + isinstance(each, float), others + 1
        if isinstance(each, dict | list):
            waiting += each.values() if isinstance(each, dict) else each
    return Price(value=_COMPARED_NS * others, number=_COMPARED_FLOAT_NS * floats)


def _listed(given: object) -> list[Any]:
    return given if isinstance(given, list) else []


def _named(given: object) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}

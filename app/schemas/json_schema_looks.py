"""What looks at a place where a subschema of a JSON Schema does: by references and branches."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.schemas.json_schema_references import References
from app.schemas.json_schema_work import BRANCHES, TOO_OFTEN, PreparationWork, refused

# Looks that one place may take.
LOOKS_MAX: Final = 400_000
# How far within others what leads back to none of them does.
_NOWHERE: Final = 1 << 30
# For each subschema and each of those that it leads to.
_OPEN_STEPS: Final = 8
_LOOK_STEPS: Final = 0.3
# What finds out what was not looked at is made by the engine for each way that leads there.
_UNEVALUATED_STEPS: Final = 12

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_DEPENDENT: Final = ("dependentSchemas", "dependencies")
_SINGLES: Final = ("not", "if", "then", "else")
_ELSEWHERE: Final = ("$dynamicRef", "$recursiveRef")
UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")

Looks = Counter[int]


class SubschemaLooks:
    """The subschemas of one schema, by number, and which of them look at the same place."""

    def __init__(self, schema: object, work: PreparationWork) -> None:
        """ValidationFailedError, as `References`."""
        self.nodes: dict[int, Any] = {}
        self._work = work
        self._references = References(schema)
        # A subschema that is but a reference is as any other with the same one.
        self._alike: dict[object, object] = {}
        # Those that are being opened, by how far within others.
        self._open: dict[int, int] = {}
        self._opened: dict[int, Looks] = {}

    def at(self, schema: object) -> Looks:
        """All that looks at a place where `schema` does.

        ValidationFailedError; LookupError, ValueError, TypeError or RecursionError for a schema
        that is none.
        """
        return self._looks(schema)[0]

    def alike(self, schema: Any) -> Any:  # noqa: ANN401 - JSON is of any type
        """The first subschema that is but the same reference, or this one."""
        if isinstance(schema, dict) and len(schema) == 1:
            reference = schema.get("$ref")
            return self._alike.setdefault(reference, schema) if reference else schema
        return schema

    def _looks(self, given: object) -> tuple[Looks, int]:
        """And the outermost of those being opened that it leads back to, which the engine stops."""
        if not isinstance(given, dict):
            return Counter(), _NOWHERE
        schema: dict[str, Any] = self.alike(given)
        key = id(schema)
        if key in self._open:
            return Counter({key: 1}), self._open[key]
        if key in self._opened:
            return self._opened[key], _NOWHERE
        self._references.must_have_no_id(schema)
        self.nodes[key] = schema
        depth = self._open[key] = len(self._open)
        looks, outermost = Counter({key: 1}), _NOWHERE
        # What it has not looked at is found by looking again.
        times = 2 if any(name in schema for name in UNEVALUATED) else 1
        for branch in self._branches(schema):
            found, back = self._looks(branch)
            self._work.spend(_OPEN_STEPS + _LOOK_STEPS * len(found), BRANCHES, at=schema)
            for at, count in found.items():
                looks[at] += count * times
            outermost = min(outermost, back)
        del self._open[key]
        self._keep(key, looks, leads_further=outermost < depth)
        return looks, outermost if outermost < depth else _NOWHERE

    def _keep(self, key: int, looks: Looks, *, leads_further: bool) -> None:
        """But for those that, looked at from elsewhere, lead further: to what was stopped here."""
        schema, total = self.nodes[key], sum(looks.values())
        if total > LOOKS_MAX:
            raise self._work.refused(TOO_OFTEN, at=schema)
        made = _UNEVALUATED_STEPS * total if any(name in schema for name in UNEVALUATED) else 0
        self._work.spend(_OPEN_STEPS + made, BRANCHES, at=schema)
        if not leads_further:
            self._opened[key] = looks

    def _branches(self, schema: Mapping[str, Any]) -> Iterator[object]:
        for name in _LISTS:
            if isinstance(found := schema.get(name), list):
                yield from found
        yield from (schema[name] for name in _SINGLES if name in schema)
        for name in _DEPENDENT:
            if isinstance(found := schema.get(name), dict):
                yield from found.values()
        if isinstance(reference := schema.get("$ref"), str):
            yield self._references.target(reference)
        if any(name in schema for name in _ELSEWHERE):
            raise refused("may refer to its parts by $ref alone")

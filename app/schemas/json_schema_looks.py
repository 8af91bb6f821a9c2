"""Finds which subschemas check the same value of a message, through references and branches."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.schemas.json_schema_references import References
from app.schemas.json_schema_work import BRANCHES, TOO_OFTEN, PreparationWork, refused

# The maximum number of checks of one value in a message by a schema.
LOOKS_MAX: Final = 400_000
# A value for "no depth": the subschema does not lead back to any subschema that is being visited.
_NOWHERE: Final = 1 << 30
# The steps of work (json_schema_work.py) to visit one subschema.
_OPEN_STEPS: Final = 8
# The additional steps for each further subschema to which a visited subschema leads.
_LOOK_STEPS: Final = 0.3
# The additional steps for the keywords unevaluatedProperties and unevaluatedItems. They count for
# each way from the subschema with the keyword to a branch: the engine creates code for each way.
_UNEVALUATED_STEPS: Final = 12

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_DEPENDENT: Final = ("dependentSchemas", "dependencies")
_SINGLES: Final = ("not", "if", "then", "else")
_ELSEWHERE: Final = ("$dynamicRef", "$recursiveRef")
UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")

Looks = Counter[int]


class SubschemaLooks:
    """The subschemas of one schema, and which of them check the same value of a message."""

    def __init__(self, schema: object, work: PreparationWork) -> None:
        """Create a `SubschemaLooks`.

        Raises:
            ValidationFailedError: A part other than the root has an `$id`.
        """
        self.nodes: dict[int, Any] = {}
        self._work = work
        self._references = References(schema)
        # Maps a `$ref` to the first subschema that contains only this `$ref`. All subschemas with
        # only the same `$ref` count as equal.
        self._alike: dict[object, object] = {}
        # The subschemas that are being visited, each with its depth.
        self._open: dict[int, int] = {}
        self._opened: dict[int, Looks] = {}

    def at(self, schema: object) -> Looks:
        """Return all subschemas that check a value if `schema` does, and how often each does.

        If `schema` is not a schema, one of these errors is raised: LookupError, ValueError,
        TypeError or RecursionError.

        Raises:
            ValidationFailedError: The schema takes too much work.
        """
        return self._looks(schema)[0]

    def alike(self, schema: Any) -> Any:  # noqa: ANN401 - JSON can have any type
        """Return one subschema that stands for all subschemas with only the same `$ref`.

        A `schema` with other content is returned unchanged.
        """
        if isinstance(schema, dict) and len(schema) == 1:
            reference = schema.get("$ref")
            return self._alike.setdefault(reference, schema) if reference else schema
        return schema

    def _looks(self, given: object) -> tuple[Looks, int]:
        """Return the result of `at`, and how far `given` leads back.

        A subschema may lead back to a subschema that is being visited. Like the engine, the search
        does not visit it again. The second result is the depth of the outermost such subschema.
        """
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
        # A subschema with a keyword for unevaluated values counts each branch twice, because the
        # engine checks again which values the branch evaluates.
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
        """Store the result for the subschema `key`, unless the result is incomplete.

        It is incomplete if the subschema leads back to a subschema that is still being visited.
        """
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

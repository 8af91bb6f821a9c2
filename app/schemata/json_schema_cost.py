"""How often a JSON Schema looks at one place of a message: a hostile one could take forever.

Branches (`anyOf`, `oneOf`, …) that each lead to the same subschemas multiply, level by level: ten
levels of two branches look a thousand times at the same place. So the most looks at one place are
counted for each level of a message, and a message whose size and depth would ask for too many is
refused before it is looked at.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from app.domain.errors import ValidationFailedError

# Looks that one message may take: about half a second where each fails. A message has at most a
# place for every two of its bytes.
LOOKS_MAX: Final = 400_000
# Fewer looks at a place than these are never counted.
USUAL_LOOKS_MAX: Final = 64
# Sets of subschemas that are looked at together, over all levels.
STATES_MAX: Final = 20_000
LEVELS_MAX: Final = 1_024

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLES: Final = ("not", "if", "then", "else")
_ANY_MEMBER: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_ANY_ITEM: Final = ("items", "contains", "unevaluatedItems")
_ELSEWHERE: Final = ("$dynamicRef", "$recursiveRef")

_Looks = Counter[int]


class SchemaCost:
    """The looks that a schema takes, by the level of a message."""

    def __init__(self, schema: object) -> None:
        """ValidationFailedError for `schema`: it cannot be said, or is too much for any message."""
        self._root = schema
        self._nodes: dict[int, Any] = {}
        self._anchors = _anchors(schema)
        self._opened: dict[int, _Looks] = {}
        # The most looks at a place of this level or one above; empty if they are never many.
        self._by_level = self._counted()

    def is_too_much(self, value: object, size: int) -> bool:
        """Whether a message of `size` bytes would take too many looks."""
        levels = self._by_level
        if not levels:
            return False
        looks = levels[min(_depth(value, len(levels)), len(levels) - 1)]
        return looks * size > LOOKS_MAX

    def _counted(self) -> list[int]:
        states: set[frozenset[tuple[int, int]]] = {frozenset(self._at(self._root).items())}
        seen, most, levels = set(states), 0, list[int]()
        while states and len(levels) < LEVELS_MAX:
            most = max(most, *(sum(count for _, count in state) for state in states))
            levels.append(most)
            if most > LOOKS_MAX:
                break
            states = {below for state in states for below in self._below(state)} - seen
            seen |= states
            if len(seen) > STATES_MAX:
                raise _refused("leads to too many places")
        if levels[0] > LOOKS_MAX:
            raise _refused("looks at one place more often than any message may take")
        return levels if most > USUAL_LOOKS_MAX else []

    def _below(self, state: Iterable[tuple[int, int]]) -> Iterator[frozenset[tuple[int, int]]]:
        """What is looked at in each kind of place one level below."""
        members: dict[object, _Looks] = {None: Counter()}
        items: dict[object, _Looks] = {None: Counter()}
        for node, count in state:
            found = self._nodes[node]
            for name, below in _children(found, "properties", _ANY_MEMBER):
                members.setdefault(name, Counter()).update(self._times(below, count))
            for below in (found.get("patternProperties") or {}).values():
                members[None].update(self._times(below, count))
            for name, below in _children(found, "prefixItems", _ANY_ITEM):
                items.setdefault(name, Counter()).update(self._times(below, count))
        for places in (members, items):
            anywhere = places[None]
            for name, looks in places.items():
                together = looks if name is None else looks + anywhere
                if together:
                    yield frozenset(together.items())

    def _times(self, schema: object, count: int) -> _Looks:
        return Counter({node: looks * count for node, looks in self._at(schema).items()})

    def _at(self, schema: object) -> _Looks:
        """All that looks at a place where `schema` does, by references and branches."""
        if not isinstance(schema, dict):
            return Counter()
        key = id(schema)
        if key not in self._opened:
            self._nodes[key] = schema
            # One that leads to itself is stopped by the engine.
            self._opened[key] = Counter({key: 1})
            looks = Counter({key: 1})
            for branch in self._branches(schema):
                looks.update(self._at(branch))
            if sum(looks.values()) > LOOKS_MAX:
                raise _refused("looks at one place more often than any message may take")
            self._opened[key] = looks
        return self._opened[key]

    def _branches(self, schema: Mapping[str, Any]) -> Iterator[object]:
        for name in _LISTS:
            if isinstance(found := schema.get(name), list):
                yield from found
        yield from (schema[name] for name in _SINGLES if name in schema)
        if isinstance(found := schema.get("dependentSchemas"), dict):
            yield from found.values()
        if isinstance(reference := schema.get("$ref"), str):
            yield self._referred(reference)
        if any(name in schema for name in _ELSEWHERE):
            raise _refused("may refer to its parts by $ref alone")

    def _referred(self, reference: str) -> object:
        if reference in self._anchors:
            return self._anchors[reference]
        if reference != "#" and not reference.startswith("#/"):
            raise _refused(f"may refer to its own parts alone, not to {reference[:100]}")
        found: Any = self._root
        for part in unquote(reference[2:]).split("/") if reference != "#" else ():
            name = part.replace("~1", "/").replace("~0", "~")
            found = found[int(name)] if isinstance(found, list) else found[name]
        return found


def _children(
    schema: Mapping[str, Any], named: str, anywhere: Iterable[str]
) -> Iterator[tuple[object, object]]:
    """The subschemas one level below, by the place that they are for; None: any."""
    found = schema.get(named)
    if isinstance(found, dict):
        yield from found.items()
    elif isinstance(found, list):
        yield from enumerate(found)
    for name in anywhere:
        yield None, schema.get(name)


def _anchors(schema: object) -> dict[str, object]:
    found: dict[str, object] = {}
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if isinstance(name := each.get("$anchor"), str):
                found[f"#{name}"] = each
            if each is not schema and isinstance(each.get("$id"), str):
                raise _refused("may have an $id at its root alone")
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return found


def _depth(value: object, at_most: int) -> int:
    """How many levels of objects and arrays `value` has, counted up to `at_most`."""
    level, depth = [value], 0
    while depth < at_most:
        level = [
            below
            for each in level
            if isinstance(each, dict | list)
            for below in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            break
        depth += 1
    return depth


def _refused(problem: str) -> ValidationFailedError:
    return ValidationFailedError.of("schema", problem)

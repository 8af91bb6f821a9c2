"""The kinds of positions in messages of a JSON Schema, their costs, and the kinds one level below.

A position is where a value is in a message: a member or an item. The kind of a position is the set
of subschemas that check it, and how often each of them does. Several kinds may have the same
subschemas for their members and items. Then the kinds one level below are the same, and are
computed only once. Together they are called a group.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from app.schemas.json_schema_looks import UNEVALUATED, Looks, SubschemaLooks
from app.schemas.json_schema_unit_costs import (
    FREE,
    Price,
    added,
    highest,
    of_names,
    price_of,
    unevaluated,
)
from app.schemas.json_schema_walk import NOTHING, Below, Group, PricedPositions
from app.schemas.json_schema_work import TOO_MANY_KINDS, PreparationWork
from app.schemas.patterns import PatternPrices

State = frozenset[tuple[int, int]]
# The subschemas that check each member or item of a value, each with the number of its checks. The
# key None is for all members and items that have no key of their own.
_Parts = dict[object, list[tuple[Any, int]]]

_NONE: Final[State] = frozenset()

# The steps of work (json_schema_work.py) for computing the cost of a subschema.
_PRICE_STEPS: Final = 30
# The additional steps for each subschema in a kind of positions. A kind is a set of subschemas.
_PART_STEPS: Final = 2
# The additional steps for each subschema that is given for a member or an item.
_CHILD_STEPS: Final = 3
# The additional steps for each pair of a position and a subschema that checks this position.
_LOOK_STEPS: Final = 0.5

_ANY_MEMBER: Final = ("additionalProperties", "unevaluatedProperties")
_ANY_ITEM: Final = ("items", "contains", "unevaluatedItems")
_CHILDREN: Final = frozenset(
    ("properties", "patternProperties", "prefixItems", *_ANY_MEMBER, *_ANY_ITEM)
)


class PositionKinds:
    """The kinds of positions in a message, each with a number.

    A kind is the set of subschemas that check a position. A kind is computed when it is needed.
    """

    def __init__(self, schema: object, work: PreparationWork, patterns: PatternPrices) -> None:
        self._work = work
        self._patterns = patterns
        self._looks = SubschemaLooks(schema, work)
        self._node_prices: dict[int, Price] = {}
        self._known: dict[State, int] = {_NONE: NOTHING}
        self._states: list[State] = [_NONE]
        self.prices: list[Price] = [FREE]
        self._numbers: dict[State, int] = {_NONE: NOTHING}
        self._of_kind: dict[int, int] = {NOTHING: NOTHING}
        self.groups: list[Group] = [Group({}, {}, frozenset(), FREE)]
        self._by_parts: dict[State, int] = {}
        self._below: dict[int, frozenset[int]] = {}
        self.root = self._kind(self._looks.at(schema))

    def positions(self) -> PricedPositions:
        """Return the kinds of positions that were computed so far, with their costs."""
        return PricedPositions(self.root, self.prices, self.groups, self._of_kind)

    def groups_of(self, kinds: Iterable[int]) -> frozenset[int]:
        """Return which groups of kinds are one level below positions of these kinds."""
        return frozenset(map(self._group, kinds)) - {NOTHING}

    def below(self, group: int) -> frozenset[int]:
        """Return which groups of kinds are one level below the positions of this group."""
        if group not in self._below:
            self._below[group] = self.groups_of(self.groups[group].kinds)
        return self._below[group]

    def _group(self, kind: int) -> int:
        if kind not in self._of_kind:
            nodes, state = self._looks.nodes, self._states[kind]
            has_children = (each for each in state if not _CHILDREN.isdisjoint(nodes[each[0]]))
            key = frozenset(has_children)
            if key not in self._numbers:
                self._numbers[key] = len(self.groups)
                self.groups.append(self._made(key))
            self._of_kind[kind] = self._numbers[key]
        return self._of_kind[kind]

    def _made(self, state: State) -> Group:
        members, items = _Parts(), _Parts()
        for node, count in state:
            found = self._looks.nodes[node]
            for name, below in _children(found, "properties", _ANY_MEMBER):
                members.setdefault(name, []).append((below, count))
            for below in (found.get("patternProperties") or {}).values():
                members.setdefault(None, []).append((below, count))
            for name, below in _children(found, "prefixItems", _ANY_ITEM):
                items.setdefault(name, []).append((below, count))
        of_members, of_items = self._together(members), self._together(items)
        kinds = frozenset((*of_members.values(), *of_items.values())) - {NOTHING}
        price = highest(self.prices[each] for each in kinds)
        return Group(of_members, of_items, kinds, price)

    def _together(self, positions: _Parts) -> Below:
        """Return the kind of each named position, and the kind of all other positions (None).

        The subschemas for all other positions also check the named positions.
        """
        anywhere = positions.get(None, [])
        return {
            name: self._of_parts(parts if name is None else parts + anywhere)
            for name, parts in positions.items()
        }

    def _of_parts(self, parts: list[tuple[Any, int]]) -> int:
        """Return the kind of a position that the subschemas in `parts` check.

        `parts` has each subschema with the number of its checks.
        """
        times = Counter[int]()
        for schema, count in parts:
            self._work.spend(_CHILD_STEPS, TOO_MANY_KINDS, at=schema)
            times[id(self._looks.alike(schema))] += count
        key = frozenset(times.items())
        if key not in self._by_parts:
            self._by_parts[key] = self._kind(self._looks_of(parts))
        return self._by_parts[key]

    def _looks_of(self, parts: list[tuple[Any, int]]) -> Looks:
        found = Looks()
        for schema, count in parts:
            looks = self._looks.at(schema)
            self._work.spend(_LOOK_STEPS * len(looks), TOO_MANY_KINDS, at=schema)
            for each, times in looks.items():
                found[each] += times * count
        return found

    def _kind(self, looks: Looks) -> int:
        state = frozenset(looks.items())
        if state:
            node = next(iter(looks))
            self._work.spend(_LOOK_STEPS * len(state), TOO_MANY_KINDS, at=self._looks.nodes[node])
        if state not in self._known:
            price = self._price(state)
            self._known[state] = len(self._states)
            self._states.append(state)
            self.prices.append(price)
        return self._known[state]

    def _price(self, state: Iterable[tuple[int, int]]) -> Price:
        return added(self._node_price(node).times(count) for node, count in state)

    def _node_price(self, node: int) -> Price:
        found = self._looks.nodes[node]
        self._work.spend(_PART_STEPS, TOO_MANY_KINDS, at=found)
        if node not in self._node_prices:
            self._work.spend(_PRICE_STEPS, TOO_MANY_KINDS, at=found)
            price = price_of(found, self._patterns)
            if "propertyNames" in found:
                names = self._price(self._looks.at(found["propertyNames"]).items())
                price = added((price, of_names(names)))
            if any(name in found for name in UNEVALUATED):
                again = (
                    unevaluated(self._looks.nodes[each]).times(count)
                    for each, count in self._looks.at(found).items()
                )
                price = added((price, *again))
            self._node_prices[node] = price
        return self._node_prices[node]


def _children(
    schema: Mapping[str, Any], named: str, anywhere: Iterable[str]
) -> Iterator[tuple[object, object]]:
    """Yield the subschemas for the members or items, each with its name or index.

    A subschema for all other members or items is yielded with None.
    """
    found = schema.get(named)
    if isinstance(found, dict):
        yield from found.items()
    elif isinstance(found, list):
        yield from enumerate(found)
    for name in anywhere:
        if name in schema:
            yield None, schema[name]

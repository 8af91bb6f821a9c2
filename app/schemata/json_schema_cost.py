"""What a JSON Schema costs to hold a message against: a hostile one could take forever.

Branches (`anyOf`, `oneOf`, …) that each lead to the same subschemas multiply, level by level: ten
levels of two branches look a thousand times at the same place. And what looks at a place may have
a thousand names, patterns or values to compare with. So the price of a look is known for each level
of a message, and a message that would take too much is refused before it is looked at. Nothing
could end the engine once it has begun.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, Final

from app.schemata.json_schema_places import Below, PricedPlaces, State
from app.schemata.json_schema_prices import FREE, Price, added, highest, price_of, unevaluated
from app.schemata.json_schema_references import References, refused
from app.schemata.levels import Levels, has_extremes
from app.schemata.patterns import PatternPrices

# Looks that one place may take.
LOOKS_MAX: Final = 400_000
# Sets of subschemas that are looked at together, and in how many levels each of them counts.
STATES_MAX: Final = 20_000
VISITS_MAX: Final = 200_000
LEVELS_MAX: Final = 1_024
# What may be looked through again to find what references lead to that lead back.
AGAIN_MAX: Final = 1_000_000
# How far within others what leads back to none of them does.
_NOWHERE: Final = 1 << 30
# What no message may take at one place, in ns.
_ENDLESS_NS: Final = 1e9
# The shortest value and what is behind it, in bytes.
_VALUE_BYTES: Final = 2
# To find out how many values a message has in each level, for each of them.
_COUNTED_NS: Final = 50
# Characters of a text that count as one value where all below a place is looked at.
_BELOW_CHARACTERS: Final = 64
# To make a text of the name of a member.
_NAME_NS: Final = 50
# To report a problem, what it is about is copied.
_COPIED_NS: Final = 80
# The shortest number that takes many digits to be divided, and what is behind it.
_EXTREME_BYTES: Final = 5

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_DEPENDENT: Final = ("dependentSchemas", "dependencies")
_SINGLES: Final = ("not", "if", "then", "else")
_ANY_MEMBER: Final = ("additionalProperties", "unevaluatedProperties")
_ANY_ITEM: Final = ("items", "contains", "unevaluatedItems")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_ELSEWHERE: Final = ("$dynamicRef", "$recursiveRef")

_Looks = Counter[int]


class SchemaCost:
    """What looks at each level of a message, and what that costs."""

    def __init__(self, schema: object) -> None:
        """ValidationFailedError for `schema`: it cannot be said, or is too much for any message."""
        self._root = schema
        self._nodes: dict[int, Any] = {}
        self._prices: dict[int, Price] = {}
        self._patterns = PatternPrices()
        self._references = References(schema)
        # Those that are being opened, by how far within others, and what opening again has taken.
        self._open: dict[int, int] = {}
        self._again = 0
        self._opened: dict[int, _Looks] = {}
        self._levels = self._priced_levels()
        self._places.close()
        self._most = highest(self._levels)
        self._below = sum(each.below for each in self._levels)

    def is_within(self, value: object, body: bytes, limit_ns: float) -> bool:
        """Whether it costs at most so much to say whether `value`, of `body`, is valid."""
        if self._at_most(len(body)) <= limit_ns:
            return True
        counts = Levels(value)
        extreme = self._most.extreme > 0 and has_extremes(value)
        if self._counted(counts, extreme=extreme) <= limit_ns:
            return True
        below = sum(counts.values) + len(body) // _BELOW_CHARACTERS
        return self._places.is_within(value, below, limit_ns, extreme=extreme)

    def is_reported_within(self, value: object, body: bytes, limit_ns: float) -> bool:
        """Whether it costs at most so much to report all that is wrong with `value`."""
        copied = len(body) * _COPIED_NS
        if self._levels[0].errors * copied > limit_ns:
            return False
        prices = list(zip(self._by_level(), Levels(value).values, strict=False))
        reported = sum(price.error * count for price, count in prices)
        return reported + sum(price.errors for price, _ in prices) * copied <= limit_ns

    def _at_most(self, size: int) -> float:
        """The cost of any message of that size."""
        most, values = self._most, size / _VALUE_BYTES + 1
        each = most.value + max(most.text, most.number) + most.child + self._below
        of_bytes = most.character + most.name + most.extreme / _EXTREME_BYTES
        return values * each + size * of_bytes

    def _counted(self, counts: Levels, *, extreme: bool) -> float:
        below = sum(counts.values)
        cost: float = _COUNTED_NS * below
        below += sum(counts.characters) // _BELOW_CHARACTERS
        for level, price in zip(range(len(counts.values)), self._by_level(), strict=False):
            below -= counts.values[level]
            cost += counts.values[level] * price.value + below * price.below
            cost += counts.numbers[level] * (price.number + price.extreme * extreme)
            cost += counts.texts[level] * price.text + counts.characters[level] * price.character
            cost += counts.names[level] * price.name
            if level + 1 < len(counts.values):
                cost += counts.values[level + 1] * price.child
        return cost

    def _by_level(self) -> Iterator[Price]:
        yield from self._levels
        # What leads on and on costs on each level what it cost before.
        yield from repeat(self._deepest)

    def _priced_levels(self) -> list[Price]:
        root = frozenset(self._at(self._root).items())
        states = {root}
        below: dict[State, set[State]] = {}
        self._places = PricedPlaces(root)
        met: dict[frozenset[State], int] = {}
        levels, visits = list[Price](), 0
        self._deepest = FREE
        while states and len(levels) < LEVELS_MAX:
            again = met.setdefault(frozenset(states), len(levels))
            if again < len(levels):
                self._deepest = highest(levels[again:])
                return levels
            prices = {state: self._price(state) for state in states}
            levels.append(highest(prices.values()))
            if levels[-1].value > _ENDLESS_NS:
                break
            for state in states - below.keys():
                members, items = self._below_of(state)
                below[state] = {each for each in (*members.values(), *items.values()) if each}
                self._places.add(state, prices[state], members=members, items=items)
            states = {each for state in states for each in below[state]}
            visits += len(states)
            if len(below) > STATES_MAX or visits > VISITS_MAX:
                raise refused("leads to too many places")
        if states:
            self._deepest = levels[-1]
        if levels[0].value > _ENDLESS_NS:
            raise refused("looks at one place more often than any message may take")
        return levels

    def _price(self, state: State) -> Price:
        return added(self._node_price(node).times(count) for node, count in state)

    def _node_price(self, node: int) -> Price:
        if node not in self._prices:
            found = self._nodes[node]
            price = self._prices[node] = price_of(found, self._patterns)
            if "propertyNames" in found:
                names = self._price(frozenset(self._at(found["propertyNames"]).items()))
                price = added((price, _of_names(names)))
            if any(name in found for name in _UNEVALUATED):
                again = (
                    unevaluated(self._nodes[each]).times(count)
                    for each, count in self._at(found).items()
                )
                price = added((price, *again))
            self._prices[node] = price
        return self._prices[node]

    def _below_of(self, state: Iterable[tuple[int, int]]) -> tuple[Below, Below]:
        """What looks at each member and at each item one level below; None: at any other."""
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
        return _together(members), _together(items)

    def _times(self, schema: object, count: int) -> _Looks:
        return Counter({node: looks * count for node, looks in self._at(schema).items()})

    def _at(self, schema: object) -> _Looks:
        """All that looks at a place where `schema` does, by references and branches."""
        return self._looks(schema)[0]

    def _looks(self, schema: object) -> tuple[_Looks, int]:
        """And the outermost of those being opened that it leads back to, which the engine stops."""
        if not isinstance(schema, dict):
            return Counter(), _NOWHERE
        key = id(schema)
        if key in self._open:
            return Counter({key: 1}), self._open[key]
        if key in self._opened:
            return self._opened[key], _NOWHERE
        self._references.must_have_no_id(schema)
        self._nodes[key] = schema
        depth = self._open[key] = len(self._open)
        looks, outermost = Counter({key: 1}), _NOWHERE
        # What it has not looked at is found by looking again.
        times = 2 if any(name in schema for name in _UNEVALUATED) else 1
        for branch in self._branches(schema):
            found, back = self._looks(branch)
            looks.update({at: count * times for at, count in found.items()})
            outermost = min(outermost, back)
        del self._open[key]
        self._keep(key, looks, leads_further=outermost < depth)
        return looks, outermost if outermost < depth else _NOWHERE

    def _keep(self, key: int, looks: _Looks, *, leads_further: bool) -> None:
        """But for those that, looked at from elsewhere, lead further: to what was stopped here."""
        total = sum(looks.values())
        if total > LOOKS_MAX:
            raise refused("looks at one place more often than any message may take")
        if not leads_further:
            self._opened[key] = looks
            return
        self._again += total
        if self._again > AGAIN_MAX:
            raise refused("has too many references that lead back to the same place")

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


def _of_names(names: Price) -> Price:
    """Of what looks at the names of members, for the value that has them."""
    return Price(child=names.value + names.text + _NAME_NS, name=names.character)


def _together(places: Mapping[object, _Looks]) -> Below:
    """What looks at one of them and what looks at all of them."""
    anywhere = places[None]
    return {
        name: frozenset((looks if name is None else looks + anywhere).items())
        for name, looks in places.items()
    }


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

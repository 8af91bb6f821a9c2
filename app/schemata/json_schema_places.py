"""What a message costs place by place, where that by levels is too much.

By levels a text costs what the dearest member of its level does. So of a message of few values each
is priced by what looks at its own place.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.schemata.json_schema_prices import Price

# Subschemas that look at one place, and how often.
State = frozenset[tuple[int, int]]
Below = Mapping[object, State]

# Values that a message may have to be priced so, and what each takes, in ns: 4 ms in all.
VALUES_MAX: Final = 4_000
_WALKED_NS: Final = 1_000
# Kinds of places, and names of places below them, that are kept for one schema.
_PLACES_MAX: Final = 5_000
_NAMES_MAX: Final = 50_000


class PricedPlaces:
    """The kinds of places of a schema: the price of each, and what kinds are below it."""

    def __init__(self, root: State) -> None:
        self._known: dict[State, int] = {}
        self._prices: dict[int, Price] = {}
        self._members: dict[int, dict[object, int]] = {}
        self._items: dict[int, dict[object, int]] = {}
        self._names = 0
        self._root = self._number(root)
        self._is_full = False

    def add(self, state: State, price: Price, *, members: Below, items: Below) -> None:
        """What is known of a kind of places."""
        self._names += len(members) + len(items)
        self._is_full |= len(self._prices) == _PLACES_MAX or self._names > _NAMES_MAX
        if not self._is_full:
            number = self._number(state)
            self._prices[number] = price
            self._members[number] = {name: self._number(below) for name, below in members.items()}
            self._items[number] = {name: self._number(below) for name, below in items.items()}

    def close(self) -> None:
        """All is known."""
        self._known.clear()

    def is_within(self, value: object, below: int, limit_ns: float, *, extreme: bool) -> bool:
        """Whether `value`, with so many in it, costs at most so much; no if that is not known."""
        if self._is_full or below > VALUES_MAX:
            return False
        cost: float = _WALKED_NS * below
        waiting = [(value, self._root)]
        while waiting and cost <= limit_ns:
            each, place = waiting.pop()
            if place in self._prices:
                price = self._prices[place]
                cost += below * price.below + _of_value(each, price, extreme=extreme)
                waiting += self._children(each, place)
            elif place != _NOTHING:
                return False
        return cost <= limit_ns

    def _children(self, value: object, place: int) -> Iterator[tuple[object, int]]:
        if isinstance(value, dict):
            members = self._members[place]
            for name, each in value.items():
                yield each, members.get(name, members[None])
        elif isinstance(value, list):
            items = self._items[place]
            for at, each in enumerate(value):
                yield each, items.get(at, items[None])

    def _number(self, state: State) -> int:
        return self._known.setdefault(state, len(self._known) + 1) if state else _NOTHING


_NOTHING: Final = 0


def _of_value(value: Any, price: Price, *, extreme: bool) -> float:  # noqa: ANN401 - JSON
    cost = price.value
    if isinstance(value, str):
        cost += price.text + price.character * len(value)
    elif isinstance(value, int | float):
        cost += price.number + price.extreme * extreme
    elif isinstance(value, dict):
        cost += price.child * len(value) + price.name * sum(map(len, value))
    elif isinstance(value, list):
        cost += price.child * len(value)
    return cost

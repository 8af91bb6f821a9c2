"""Computes the cost of a message position by position, if its cost by levels is too high.

By levels, each text has the cost of the most expensive member of its level. In messages with few
values, it is more exact to count each value with the checks of its own position.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.schemas.json_schema_unit_costs import Price

# The number of the kind of positions without checks, and of the group of such kinds.
NOTHING: Final = 0
# The kinds of positions by name or index. None stands for all other positions.
Below = Mapping[object, int]

# The maximum number of values in such a message. Counting all of them takes 4 ms.
VALUES_MAX: Final = 4_000
# The cost of counting one of these values.
_WALKED_NS: Final = 1_000


class Group(NamedTuple):
    """The positions below those of some kinds.

    `price` has the maximum of each part of the cost.
    """

    members: Below
    items: Below
    kinds: frozenset[int]
    price: Price


class PricedPlaces(NamedTuple):
    """The kinds of positions of a schema: the cost of each, and the group below it."""

    root: int
    prices: Sequence[Price]
    groups: Sequence[Group]
    of_kind: Mapping[int, int]

    def cost(self, value: object, below: int, limit_ns: float, *, extreme: bool) -> float | None:
        """Return the cost of `value`; None if it exceeds `limit_ns` or is unknown."""
        if below > VALUES_MAX:
            return None
        cost: float = _WALKED_NS * below
        waiting = [(value, self.root)]
        while waiting and cost <= limit_ns:
            each, place = waiting.pop()
            if place == NOTHING:
                continue
            price = self.prices[place]
            cost += below * price.below + _of_value(each, price, extreme=extreme)
            if isinstance(each, dict | list):
                if place not in self.of_kind:
                    return None
                waiting += _children(each, self.groups[self.of_kind[place]])
        return cost if cost <= limit_ns else None


def _children(value: Any, group: Group) -> Iterator[tuple[object, int]]:  # noqa: ANN401 - JSON can have any type
    if isinstance(value, dict):
        others = group.members.get(None, NOTHING)
        for name, each in value.items():
            yield each, group.members.get(name, others)
    else:
        others = group.items.get(None, NOTHING)
        for at, each in enumerate(value):
            yield each, group.items.get(at, others)


def _of_value(value: Any, price: Price, *, extreme: bool) -> float:  # noqa: ANN401 - JSON can have any type
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

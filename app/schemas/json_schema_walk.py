"""Computes the cost of validating a message position by position.

This computation is used if the cost by levels is too high. The cost by levels assumes that each
text costs as much as the most expensive text of its level. In a message with few values, the cost
is more exact if each value is counted with the checks of its own position.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.schemas.json_schema_unit_costs import Price

# The number of the kind of positions that no subschema checks. The group below this kind has the
# same number.
NOTHING: Final = 0
# The kind of each member (by name) or item (by index). None stands for all other members or items.
Below = Mapping[object, int]

# If a message has more values than this, its cost is not computed position by position. So many
# values take 4 ms.
VALUES_MAX: Final = 4_000
# The time in ns that it takes to compute the cost of one value.
_WALKED_NS: Final = 1_000


class Group(NamedTuple):
    """The kinds of positions one level below some other kinds of positions.

    Attributes:
        members: the kinds of members by name; None for all other members.
        items: the kinds of items by index; None for all other items.
        kinds: the kinds of all these members and items.
        price: for each field of a cost, the maximum among these kinds.
    """

    members: Below
    items: Below
    kinds: frozenset[int]
    price: Price


class PricedPositions(NamedTuple):
    """The kinds of positions in messages of a schema, by number.

    Attributes:
        root: the kind of the whole message.
        prices: the cost of each kind.
        groups: groups of kinds.
        of_kind: which group is below each kind.
    """

    root: int
    prices: Sequence[Price]
    groups: Sequence[Group]
    of_kind: Mapping[int, int]

    def cost(self, value: object, below: int, limit_ns: float, *, extreme: bool) -> float | None:
        """Return the cost of checking `value`; None if it exceeds `limit_ns` or is unknown.

        `below` is the number of values in `value`. A long text counts as several values. `extreme`
        means that `value` has very large or very small numbers.
        """
        if below > VALUES_MAX:
            return None
        cost: float = _WALKED_NS * below
        waiting = [(value, self.root)]
        while waiting and cost <= limit_ns:
            each, kind = waiting.pop()
            if kind == NOTHING:
                continue
            price = self.prices[kind]
            cost += below * price.below + _of_value(each, price, extreme=extreme)
            if isinstance(each, dict | list):
                if kind not in self.of_kind:
                    return None
                waiting += _children(each, self.groups[self.of_kind[kind]])
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

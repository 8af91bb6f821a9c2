"""Computes the cost of validating a message. A hostile JSON Schema could make this cost endless.

Branches (`anyOf`, `oneOf`, …) that lead to the same subschemas multiply, level by level: ten levels
of two branches check the same value a thousand times. A single check may compare a value with a
thousand names, patterns or values. So the cost of checks is computed for each level of a message. A
message that would cost too much is refused before validation, because the engine cannot be stopped.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Final

from app.schemas.json_schema_cost_by_path import PositionKinds
from app.schemas.json_schema_unit_costs import FREE, Price, highest
from app.schemas.json_schema_work import TOO_MANY_KINDS, TOO_OFTEN, PreparationWork
from app.schemas.levels import Levels, has_extremes
from app.schemas.patterns import PatternPrices

LEVELS_MAX: Final = 1_024
# The steps of work (json_schema_work.py) to compute the cost of one level of a message.
_LEVEL_STEPS: Final = 5
# The additional steps for each group of positions (see PositionKinds) at a level.
_GROUP_STEPS: Final = 2
# A cost in ns for one position of a message. No message may cost so much. If the root position
# costs more, the schema is refused. If a deeper level costs more, the levels below it are not
# computed.
_ENDLESS_NS: Final = 1e9
# The size in bytes of the shortest JSON value, together with the comma after it.
_VALUE_BYTES: Final = 2
# The cost in ns of counting the values of a message at each level, for each value.
_COUNTED_NS: Final = 50
# Some checks look at all values below a position. For these checks, a text counts as one value for
# each group of characters of this size.
_BELOW_CHARACTERS: Final = 64
# The cost in ns of copying an invalid value into an error, for each byte of the message.
_COPIED_NS: Final = 80
# The size in bytes of the shortest number that takes long to be divided (multipleOf), together with
# the comma after it.
_EXTREME_BYTES: Final = 5


class SchemaCost:
    """The cost of checking messages with a schema, computed for each level of a message."""

    def __init__(self, schema: object, work: PreparationWork, patterns: PatternPrices) -> None:
        """Compute the cost of the schema.

        If `schema` is not a schema, one of these errors is raised: LookupError, ValueError,
        TypeError, AttributeError or RecursionError.

        Raises:
            ValidationFailedError: The cost is unknown, or too high for any message (field
                `schema`).
        """
        self._work = work
        kinds = PositionKinds(schema, work, patterns)
        self._deepest = FREE
        self._levels = self._priced_levels(schema, kinds)
        self._positions = kinds.positions()
        self._most = highest(self._levels)
        self._below = sum(each.below for each in self._levels)

    def of(
        self, value: object, body: bytes, limit_ns: float, *, is_exact: bool = False
    ) -> float | None:
        """Return the most that validating `value` can cost, in ns; None if it is above the limit.

        `value` was read from `body`. With `is_exact`, the values are counted even if every message
        of that size costs less than the limit.
        """
        at_most = self._at_most(len(body))
        if at_most <= limit_ns and not is_exact:
            return at_most
        counts = Levels(value)
        extreme = self._most.extreme > 0 and has_extremes(value)
        counted = min(at_most, self._counted(counts, extreme=extreme))
        if counted <= limit_ns:
            return counted
        below = sum(counts.values) + len(body) // _BELOW_CHARACTERS
        return self._positions.cost(value, below, limit_ns, extreme=extreme)

    def of_report(self, value: object, body: bytes, limit_ns: float) -> float:
        """Return the most that reporting all errors can cost, in ns.

        If this cost is above `limit_ns`, the result may be any number above `limit_ns`.
        """
        copied = len(body) * _COPIED_NS
        if self._levels[0].errors * copied > limit_ns:
            return self._levels[0].errors * copied
        prices = list(zip(self._by_level(), Levels(value).values, strict=False))
        reported = sum(price.error * count for price, count in prices)
        return reported + sum(price.errors for price, _ in prices) * copied

    def _at_most(self, size: int) -> float:
        """Return the most that a message of that size can cost, in ns."""
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
        # Recursive checks cost the same on each further level. So the highest cost of the repeated
        # levels counts for all further levels.
        yield from repeat(self._deepest)

    def _priced_levels(self, schema: object, kinds: PositionKinds) -> list[Price]:
        levels = [kinds.prices[kinds.root]]
        level = kinds.groups_of([kinds.root])
        met: dict[frozenset[int], int] = {}
        while level and len(levels) < LEVELS_MAX:
            again = met.setdefault(level, len(levels))
            if again < len(levels):
                self._deepest = highest(levels[again:])
                return levels
            steps = _LEVEL_STEPS + _GROUP_STEPS * len(level)
            self._work.spend(steps, TOO_MANY_KINDS, at=schema)
            levels.append(highest(kinds.groups[each].price for each in level))
            if levels[-1].value > _ENDLESS_NS:
                break
            level = frozenset().union(*map(kinds.below, level))
        if level:
            self._deepest = levels[-1]
        if levels[0].value > _ENDLESS_NS:
            raise self._work.refused(TOO_OFTEN, at=schema)
        return levels

"""The condition over a message's outcomes after which a publisher no longer waits."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from app.domain.runtime.receipt import FinalOutcome
from app.expressions import Condition, EvaluationError
from app.services.publishing.waiters import PendingReason, SubscriberOutcome

PATH: Final = "ackExpression"
_COMPILED_MAX: Final = 256
_COUNTED: Final = (*FinalOutcome, *PendingReason)
# The variables of the condition, with their values for a topic without subscriptions.
_NOBODY: Final[dict[str, Any]] = {
    **{each.value.lower(): 0 for each in _COUNTED},
    "subscriptions": 0,
    "outcomes": {},
}


class AckCondition(Condition):
    """A condition over the outcomes of a message (Mule's `ackExpression`).

    The condition can use these variables. `subscriptions` is the number of subscriptions.
    `delivered`, `discarded`, `filtered`, `pending`, `suspended` and `deleted` are the numbers of
    subscriptions with this outcome. `outcomes` has the outcome by the name of the subscription.
    """

    __slots__ = ()

    def __init__(self, text: str) -> None:
        """Compile the condition.

        Raises:
            ValidationFailedError: The condition is not valid. The error names its field.
        """
        super().__init__(text, path=PATH, variables=_NOBODY)

    def acknowledges(self, outcomes: Sequence[SubscriberOutcome]) -> bool:
        """Whether the condition is true for these outcomes; False if it cannot be evaluated."""
        counts = Counter(each.outcome.value.lower() for each in outcomes)
        values: dict[str, Any] = {name: counts[name] for name in _NOBODY}
        values["subscriptions"] = len(outcomes)
        values["outcomes"] = {each.name: each.outcome.value for each in outcomes}
        try:
            return self.holds({name: values[name] for name in self.reads})
        except EvaluationError:
            return False


@lru_cache(maxsize=_COMPILED_MAX)
def ack_condition(text: str) -> AckCondition:
    """Return the compiled condition.

    Raises:
        ValidationFailedError: The condition is not valid.
    """
    return AckCondition(text)

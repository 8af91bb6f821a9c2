"""Metrics in the form of current Hermes, with rates and lags as texts for its clients.

Hermes' clients read metrics by the classes `MetricDecimalValue` and `MetricLongValue`. These
classes accept only texts, and only the fields that Hermes has.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from app.api.bodies.base import JsonObject

# Hermes' text for an unknown value.
UNAVAILABLE: Final = "unavailable"


class HermesForm(NamedTuple):
    """The fields of one kind of metrics: which stay unchanged, and which become texts.

    `plain` fields stay unchanged. `decimals` and `counts` become texts.
    """

    plain: tuple[str, ...]
    decimals: tuple[str, ...]
    counts: tuple[str, ...] = ()

    def of(self, metrics: Mapping[str, Any]) -> JsonObject:
        """Return `metrics` in Hermes' form. `metrics` has the form of Angelia's responses."""
        plain = {name: metrics[name] for name in self.plain if name in metrics}
        decimals = {name: _decimal(metrics.get(name)) for name in self.decimals}
        counts = {name: _count(metrics.get(name)) for name in self.counts}
        return {**plain, **decimals, **counts}


_TOPIC_COUNTS: Final = ("published", "volume", "subscriptions")
_TOPIC_RATES: Final = ("rate", "deliveryRate", "throughput")
_SUBSCRIPTION_COUNTS: Final = ("delivered", "discarded", "volume")
_ANSWERS: Final = ("otherErrors", "codes2xx", "codes4xx", "codes5xx", "retries", "batchRate")
_SUBSCRIPTION_RATES: Final = ("timeouts", "rate", "throughput")

TOPIC: Final = HermesForm(_TOPIC_COUNTS, _TOPIC_RATES)
NAMED_TOPIC: Final = HermesForm(("name", *_TOPIC_COUNTS), _TOPIC_RATES)
SUBSCRIPTION: Final = HermesForm(_SUBSCRIPTION_COUNTS, (*_SUBSCRIPTION_RATES, *_ANSWERS), ("lag",))
NAMED_SUBSCRIPTION: Final = HermesForm(
    ("topicName", "name", *_SUBSCRIPTION_COUNTS), _SUBSCRIPTION_RATES, ("lag",)
)


def _decimal(value: float | None) -> str:
    return UNAVAILABLE if value is None else str(float(value))


def _count(value: int | None) -> str:
    return UNAVAILABLE if value is None else str(value)

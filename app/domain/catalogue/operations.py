"""What operators say of the service and see of it: constraints, readiness, inactive topics."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.errors import ClusterNotFoundError, ValidationFailedError

REASON_LENGTH_MAX: Final = 1_024
CONSUMERS_MAX: Final = 10_000

# The one data centre, and cluster, that there is, as Hermes' documents call it.
DATACENTER: Final = "primary"
# Today's Hermes calls its first cluster and its first data centre so: who asks for them means ours.
_CLUSTERS: Final = frozenset({DATACENTER, "primary-dc", "dc"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """How many consumers a subscription, or each of a topic, should have, and why.

    They are kept for those who ask. Here all live workers share a topic's partitions.
    """

    consumers: int
    reason: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.consumers <= CONSUMERS_MAX:
            message = f"must be 1 to {CONSUMERS_MAX}"
            raise ValidationFailedError.of("constraints.consumersNumber", message)
        if self.reason is not None and len(self.reason) > REASON_LENGTH_MAX:
            message = f"must be at most {REASON_LENGTH_MAX} characters"
            raise ValidationFailedError.of("constraints.reason", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadConstraints:
    """All there are: by topic, and by topic and subscription."""

    topics: Mapping[str, Constraints]
    subscriptions: Mapping[tuple[str, str], Constraints]


@dataclass(frozen=True, slots=True, kw_only=True)
class InactiveTopic:
    """A topic to which nothing has been published, and since when, as far as is known."""

    name: str
    since: datetime


def require_cluster(name: str) -> None:
    """Return if it is the one cluster, or data centre, there is; ClusterNotFoundError."""
    if name not in _CLUSTERS:
        raise ClusterNotFoundError(f"Cluster {name} does not exist: there is {DATACENTER}")

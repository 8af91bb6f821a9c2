"""Settings and views of operators: constraints, readiness, inactive topics."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.errors import ClusterNotFoundError, ValidationFailedError

REASON_LENGTH_MAX: Final = 1_024
CONSUMERS_MAX: Final = 10_000

# The name of the only data centre and cluster in Hermes' documents.
DATACENTER: Final = "primary"
# Names of the first cluster and the first data centre in current Hermes. Here they mean the only
# cluster and the only data centre.
_CLUSTERS: Final = frozenset({DATACENTER, "primary-dc", "dc"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """How many consumers a subscription, or each subscription of a topic, should have, and why.

    Constraints are stored for tools that read them. They have no effect, because in Angelia all
    running workers share a topic's partitions.
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
    """All constraints: by topic, and by topic and subscription."""

    topics: Mapping[str, Constraints]
    subscriptions: Mapping[tuple[str, str], Constraints]


@dataclass(frozen=True, slots=True, kw_only=True)
class InactiveTopic:
    """A topic without new messages, and the time since when it has had none."""

    name: str
    since: datetime


def require_cluster(name: str) -> None:
    """Check that `name` is a name of the only cluster and data centre that there is.

    Raises:
        ClusterNotFoundError: It is another name.
    """
    if name not in _CLUSTERS:
        raise ClusterNotFoundError(f"Cluster {name} does not exist: there is {DATACENTER}")

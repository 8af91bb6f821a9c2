"""Settings and lists for operators: constraints, data centres, and inactive topics."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.errors import ClusterNotFoundError, ValidationFailedError

REASON_LENGTH_MAX: Final = 1_024
CONSUMERS_MAX: Final = 10_000

# The name of the data centre and of the cluster. Hermes' documents use this name. Angelia has only
# one data centre and one cluster.
DATACENTER: Final = "primary"
# The names that callers may use for the only cluster and data centre. In current Hermes, the last
# two are the names of the first cluster and the first data centre.
_CLUSTERS: Final = frozenset({DATACENTER, "primary-dc", "dc"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """How many workers should deliver a subscription, or each subscription of a topic, and why.

    Constraints are stored for tools that read them. They have no effect, because in Angelia all
    running workers share the partitions of a topic.
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
    """All constraints of the installation: those for topics, and those for single subscriptions."""

    topics: Mapping[str, Constraints]
    subscriptions: Mapping[tuple[str, str], Constraints]


@dataclass(frozen=True, slots=True, kw_only=True)
class InactiveTopic:
    """A topic without new messages. `since` is the time from which on it has got none."""

    name: str
    since: datetime


def require_cluster(name: str) -> None:
    """Check that `name` is a name of Angelia's only cluster and data centre.

    Raises:
        ClusterNotFoundError: `name` is another name.
    """
    if name not in _CLUSTERS:
        raise ClusterNotFoundError(f"Cluster {name} does not exist: there is {DATACENTER}")

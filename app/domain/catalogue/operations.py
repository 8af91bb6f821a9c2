"""Settings and lists for operators: constraints, data centres, and inactive topics."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.errors import ClusterNotFoundError, ValidationFailedError

REASON_LENGTH_MAX: Final = 1_024
CONSUMERS_MAX: Final = 10_000

# The name of the data centre and of the cluster. Hermes' documents use this name. In Angelia, there
# is only one of both.
DATACENTER: Final = "primary"
# Other names of the data centre or cluster that callers may use. Current versions of Hermes have
# these names for the first one. In Angelia, they mean the only one.
_CLUSTERS: Final = frozenset({DATACENTER, "primary-dc", "dc"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """How many workers should deliver a subscription, or each subscription of a topic, and why.

    Constraints are stored for tools of Hermes that read them. They have no effect, because in
    Angelia all running workers share the partitions of a topic.
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
    """A topic that gets no new messages. `since` is the time of its last message."""

    name: str
    since: datetime


def require_cluster(name: str) -> None:
    """Check that `name` is a name of Angelia's only cluster and data centre.

    Raises:
        ClusterNotFoundError: `name` is another name.
    """
    if name not in _CLUSTERS:
        raise ClusterNotFoundError(f"Cluster {name} does not exist: there is {DATACENTER}")

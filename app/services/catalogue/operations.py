"""Settings of operators: workload constraints, and whether the service is in use."""

from typing import Final

from app.domain.access.audit import Action, Change
from app.domain.catalogue.operations import (
    DATACENTER,
    Constraints,
    WorkloadConstraints,
    require_cluster,
)
from app.domain.errors import SubscriptionUnconstrainedError, TopicUnconstrainedError
from app.services.access.audit import note
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.operations import ConstraintRepository, DatacenterRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database

_CONSTRAINTS: Final = "workloadConstraints"
_DATACENTER: Final = "datacenter"


class OperationsService:
    """Stores the settings of operators; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def constraints(self) -> WorkloadConstraints:
        """Return all workload constraints."""
        async with self._database.transaction() as session:
            return await ConstraintRepository(session).all()

    async def constrain(
        self, constraints: Constraints, *, topic: str, subscription: str = ""
    ) -> bool:
        """Set the constraints of a topic or subscription; return whether there were none before.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        async with self._database.transaction() as session:
            if subscription:
                await SubscriptionRepository(session).get(topic, subscription)
            else:
                await TopicRepository(session).get(topic)
            repository = ConstraintRepository(session)
            before = await repository.get(topic, subscription)
            await repository.put(constraints, topic=topic, subscription=subscription)
            event = _changed(topic, subscription, before=before, after=constraints)
            await note(AuditRepository(session), event)
        return before is None

    async def unconstrain(self, *, topic: str, subscription: str = "") -> None:
        """Delete the constraints of a topic or subscription.

        Raises:
            TopicUnconstrainedError: The topic has no constraints.
            SubscriptionUnconstrainedError: The subscription has no constraints.
        """
        async with self._database.transaction() as session:
            repository = ConstraintRepository(session)
            before = await repository.get(topic, subscription)
            if before is None:
                raise _unconstrained(topic, subscription)
            await repository.delete(topic, subscription)
            event = _changed(topic, subscription, before=before)
            await note(AuditRepository(session), event)

    async def is_ready(self) -> bool:
        """Whether operators have put the data centre into service."""
        async with self._database.transaction() as session:
            return await DatacenterRepository(session).is_ready()

    async def set_ready(self, datacenter: str, *, ready: bool) -> None:
        """Put the data centre into service, or out of service.

        Raises:
            ClusterNotFoundError: There is no such data centre.
        """
        require_cluster(datacenter)
        async with self._database.transaction() as session:
            repository = DatacenterRepository(session)
            before = await repository.is_ready()
            await repository.set_ready(ready=ready)
            event = Change(
                action=Action.UPDATED,
                kind=_DATACENTER,
                name=DATACENTER,
                before={"isReady": before},
                after={"isReady": ready},
            )
            await note(AuditRepository(session), event)


def _unconstrained(
    topic: str, subscription: str
) -> TopicUnconstrainedError | SubscriptionUnconstrainedError:
    if subscription:
        message = f"Subscription {subscription} of {topic} has no workload constraints"
        return SubscriptionUnconstrainedError(message)
    return TopicUnconstrainedError(f"Topic {topic} has no workload constraints")


def _changed(
    topic: str,
    subscription: str,
    *,
    before: Constraints | None,
    after: Constraints | None = None,
) -> Change:
    if after is None:
        action = Action.REMOVED
    else:
        action = Action.CREATED if before is None else Action.UPDATED
    return Change(
        action=action,
        kind=_CONSTRAINTS,
        name=f"{topic}/{subscription}" if subscription else topic,
        before=_described(before),
        after=_described(after),
    )


def _described(constraints: Constraints | None) -> dict[str, object] | None:
    if constraints is None:
        return None
    return {"consumersNumber": constraints.consumers, "reason": constraints.reason}

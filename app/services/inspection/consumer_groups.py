"""Shows a subscription as a consumer group of the log: offsets, lag, and members."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.seek import sought
from app.domain.catalogue.subscription import State, Subscription
from app.domain.commit import parse_progress
from app.domain.message import Partition
from app.domain.status import CursorStatus, WorkerStatus
from app.log.interface import Bounds, Committed, MessageLog
from app.services.applied_changes import LIVE_WITHIN
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.health.statuses import StatusRepository
from app.storage.health.workers import WorkerRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    """The position of the subscription in one partition.

    `current` is the committed offset, or the offset to which the subscription was moved after that
    commit; None if there is neither. `end` is the next offset of the partition.
    """

    partition: Partition
    current: int | None
    end: int
    metadata: str = ""

    @property
    def lag(self) -> int | None:
        """The number of messages from the committed offset to the end."""
        return None if self.current is None else max(0, self.end - self.current)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A running worker, and the partitions in which it delivers this subscription's messages."""

    worker: str
    host: str
    partitions: Sequence[GroupPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """The consumer group of a subscription: its members, and all partitions of its topic.

    A partition is included even if no member delivers its messages. `content_type` is the content
    type of the records in the log.
    """

    id: str
    content_type: ContentType
    members: Sequence[GroupMember] = ()
    partitions: Sequence[GroupPartition] = field(default=())


class ConsumerGroupService:
    """Makes consumer groups from the log's offsets and the workers' reports.

    `namespace` is Angelia's prefix for names in Kafka.
    """

    def __init__(self, database: Database, log: MessageLog, *, namespace: str = "") -> None:
        self._database = database
        self._log = log
        self._namespace = namespace

    async def of(self, topic: str, name: str) -> ConsumerGroup:
        """Return the subscription's group. A suspended subscription has no members.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            LogUnavailableError: The log cannot be reached.
        """
        async with self._database.transaction() as session:
            found = await SubscriptionRepository(session).get(topic, name)
            stored = await TopicRepository(session).get(topic)
            cursors = await StatusRepository(session).cursors(found.id)
            workers = await WorkerRepository(session).live(LIVE_WITHIN)
        partitions = await self._log.partitions(topic)
        committed = (await self._log.committed({found.group: partitions})).get(found.group, {})
        standing = _group_partitions(
            found,
            {each: committed.get(each) for each in partitions},
            await self._log.bounds(partitions),
        )
        live = workers if found.state is State.ACTIVE else []
        return ConsumerGroup(
            id=f"{self._namespace}{found.group}",
            content_type=stored.content_type,
            members=_members(live, cursors, standing),
            partitions=list(standing.values()),
        )


def _group_partitions(
    subscription: Subscription,
    committed: Mapping[Partition, Committed | None],
    bounds: Mapping[Partition, Bounds],
) -> Mapping[int, GroupPartition]:
    nowhere = Bounds(0, 0)
    return {
        partition.index: GroupPartition(
            partition=partition,
            current=_current(subscription, partition, commit),
            end=bounds.get(partition, nowhere).end,
            metadata=commit.metadata if commit else "",
        )
        for partition, commit in committed.items()
    }


def _current(
    subscription: Subscription, partition: Partition, committed: Committed | None
) -> int | None:
    """Return the next offset: the committed one, or that of a move which is not committed yet."""
    seek = subscription.seek
    if committed is None:
        return seek.offset_in(partition.index) if seek else None
    progress = parse_progress(subscription.id, committed.offset, committed.metadata)
    if progress is None:
        return committed.offset
    return sought(progress, seek, partition=partition.index).offset


def _members(
    workers: Sequence[WorkerStatus],
    cursors: Sequence[CursorStatus],
    standing: Mapping[int, GroupPartition],
) -> Sequence[GroupMember]:
    owned: dict[str, list[GroupPartition]] = {}
    for cursor in cursors:
        if cursor.partition in standing:
            owned.setdefault(cursor.worker_id, []).append(standing[cursor.partition])
    return [
        GroupMember(worker=worker.id, host=worker.host, partitions=owned[worker.id])
        for worker in workers
        if worker.id in owned
    ]

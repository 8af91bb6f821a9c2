"""The Kafka adapter of the message log: combines the modules of this folder, and converts names."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from app.domain.catalogue.topic import Ack
from app.domain.durability import Copies, Replication
from app.domain.errors import LogUnavailableError, TopicNotFoundError
from app.domain.kafka_security import IN_THE_CLEAR, KafkaSecurity
from app.domain.message import NewRecord, Partition
from app.log.interface import (
    Bounds,
    Chunk,
    Committed,
    FoundTopic,
    LogStats,
    LogTopic,
    MessageLog,
    Ownership,
    Position,
    Tail,
)
from app.log.kafka.admin import Admin
from app.log.kafka.append_queues import Located
from app.log.kafka.bridge import IoThread, Work
from app.log.kafka.client import Client, Leaders
from app.log.kafka.commit_requests import COMMIT_TIMEOUT, Committing
from app.log.kafka.commits import Commits
from app.log.kafka.coordinators import Coordinators, FoundGroups, found_groups
from app.log.kafka.credentials import KafkaCredentials, opened_credentials
from app.log.kafka.names import NamedTail, Names
from app.log.kafka.ownership import KafkaMember, Membership
from app.log.kafka.partition_leaders import LeaderCache, PartitionLeaders
from app.log.kafka.probe import what_refuses
from app.log.kafka.producer import Producer
from app.log.kafka.producer_ids import new_producer_id
from app.log.kafka.protocol.compression import Compression
from app.log.kafka.protocol.fetches import ReadOptions
from app.log.kafka.reader import CALL_TIMEOUT_S, KafkaReader
from app.log.kafka.sequences import IdRefusedError, NoIdsError, ProducerId
from app.log.kafka.tail import KafkaTail
from app.log.kafka.topic_ends import Published

T = TypeVar("T")

_log = structlog.get_logger(__name__)

READ_ALL_COMMITTED: Final = ReadOptions()

OWNERSHIP_GROUP: Final = "angelia.workers"

_REQUEST_TIMEOUT_S: Final = 3.0
# How long a look-up of the leaders of a topic may take, in seconds. After this time, the look-up is
# repeated.
_LOCATE_TIMEOUT_S: Final = 1.4


@asynccontextmanager
async def kafka_log(
    bootstrap: str,
    *,
    namespace: str,
    security: KafkaSecurity = IN_THE_CLEAR,
    replication_factor: int = 1,
    min_insync_replicas: int | None = None,
    compression: Compression = Compression.NONE,
    options: ReadOptions = READ_ALL_COMMITTED,
    idempotent: bool = True,
) -> AsyncIterator[MessageLog]:
    """Open the message log on the Kafka cluster at `bootstrap` (`host:port,…`).

    Opening does not wait for Kafka: each call raises an error if Kafka does not respond.

    Args:
        bootstrap: the addresses of some brokers.
        namespace: the prefix of the name of every topic and group in Kafka.
        security: TLS and SASL of all connections.
        replication_factor: the number of replicas of topics that are created.
        min_insync_replicas: how many replicas of a topic must be in sync for an append. None means
            all replicas of the topic except one.
        compression: the codec of appended records.
        options: the options of all fetches.
        idempotent: whether an append without an acknowledgement is sent again, and is nevertheless
            stored only once.
    """
    async with AsyncExitStack() as stack:
        credentials = await stack.enter_async_context(opened_credentials(security))
        control = IoThread("angelia-control")
        stack.push_async_callback(control.close)
        log = KafkaLog(control, bootstrap, credentials, namespace=namespace)
        stack.push_async_callback(log.close)
        await log.open(
            Replication(replication_factor, min_insync_replicas),
            compression,
            options,
            idempotent=idempotent,
        )
        yield log


class KafkaLog:
    """`MessageLog` on Kafka; created by `kafka_log`.

    Messages are sent and received on the event loop. All other requests use kafka-python on a
    separate thread.
    """

    def __init__(
        self, control: IoThread, bootstrap: str, credentials: KafkaCredentials, *, namespace: str
    ) -> None:
        self._control = control
        self._bootstrap = bootstrap
        self._credentials = credentials
        self._names = Names(namespace)
        self._stats = LogStats()
        self._clients: list[Client] = []
        self._memberships: list[Membership] = []
        self._parts = AsyncExitStack()
        self._refused = ""

    @property
    def stats(self) -> LogStats:
        """The totals of this process."""
        return self._stats

    async def open(
        self,
        replication: Replication,
        compression: Compression,
        options: ReadOptions,
        *,
        idempotent: bool,
    ) -> None:
        """Create the producer, the readers and the other parts of the log.

        Each of these parts opens its own connections when it needs them.
        """
        self._idempotent = idempotent
        self._locating = await self._client("locate", _LOCATE_TIMEOUT_S)
        self._control_client = await self._client("control")
        self._leader_cache = LeaderCache(self._look)
        self._producer = await self._parts.enter_async_context(
            Producer(
                self._locate,
                prefix=self._names.prefix,
                credentials=self._credentials,
                stats=self._stats,
                compression=compression,
                ask_for_id=self._ask_for_id if idempotent else None,
            )
        )
        self._commits = Commits(self._control, self._control_client)
        self._coordinators = Coordinators(self._look_for_groups)
        self._committing = Committing(
            self._coordinators, credentials=self._credentials, may_commit=self._may_commit
        )
        self._parts.callback(self._committing.close)
        self._admin = Admin(self._control, self._control_client, replication=replication)
        self._reader = KafkaReader(
            self._leader_cache,
            io=self._control,
            client=self._control_client,
            credentials=self._credentials,
            stats=self._stats,
            options=options,
        )
        self._parts.callback(self._reader.close)
        self._published = Published(self._leader_cache, self._credentials)
        self._parts.callback(self._published.close)

    async def close(self) -> None:
        """Close all connections; waiting calls fail with LogUnavailableError."""
        for client in self._clients:
            await self._control.run(_closing(client.close))
        await self._parts.aclose()

    def append(
        self, topic: str, records: Sequence[NewRecord], *, ack: Ack = Ack.ALL
    ) -> Coroutine[Any, Any, Sequence[Position]]:
        """Append `records`; return their positions when the log has acknowledged them."""
        return self._producer.append(topic, records, ack)

    async def fetch(
        self, partition: Partition, offset: int, *, bytes_max: int, wait: timedelta = timedelta()
    ) -> Chunk:
        """Return the records from `offset` on, about `bytes_max` bytes; see `MessageLog.fetch`."""
        chunk = await self._reader.fetch(
            self._names.full(partition), offset, bytes_max=bytes_max, wait=wait
        )
        return self._names.chunk(chunk)

    @asynccontextmanager
    async def tail(self) -> AsyncIterator[Tail]:
        """Open a separate reader of new records."""
        async with KafkaTail(self._leader_cache, self._reader, self._stats) as tail:
            yield NamedTail(tail, self._names)

    @asynccontextmanager
    async def ownership(
        self,
        *,
        member: str,
        capacity: float = 1.0,
        revoke_timeout: timedelta = timedelta(seconds=5),
    ) -> AsyncIterator[Ownership]:
        """Join the group as `member`; see `MessageLog.ownership`."""
        io = self._control
        membership = Membership(io, self._names.prefix)
        client = await self._client(f"member-{member}")

        async def join() -> KafkaMember:
            return KafkaMember(
                io,
                client,
                self._control_client,
                group=self._names.prefix + OWNERSHIP_GROUP,
                name=member,
                capacity=capacity,
                revoke_timeout=revoke_timeout,
                membership=membership,
            )

        membership.member = joined = await io.run(join)
        self._memberships.append(membership)
        try:
            yield membership
        finally:
            self._memberships.remove(membership)
            self._clients.remove(client)
            await io.run(joined.leave)
            membership.end()

    async def commit(
        self, offsets: Mapping[str, Mapping[Partition, Committed]]
    ) -> Mapping[tuple[str, Partition], str]:
        """Commit positions; return the positions that failed.

        If Kafka does not respond, all positions have failed.
        """
        prefix = self._names.prefix
        failures = await self._committing.commit(
            {
                prefix + group: {self._names.full(p): committed for p, committed in each.items()}
                for group, each in offsets.items()
                if each
            }
        )
        self._stats.commits += sum(map(len, offsets.values())) - len(failures)
        return {
            (group[len(prefix) :], self._names.ours(partition)): why
            for (group, partition), why in failures.items()
        }

    async def committed(
        self, groups: Mapping[str, Collection[Partition]]
    ) -> Mapping[str, Mapping[Partition, Committed]]:
        """Return the committed positions of groups.

        The result leaves out partitions without a committed position.
        """
        prefix = self._names.prefix
        found = await self._commits.committed(
            {prefix + group: self._names.all_full(each) for group, each in groups.items()}
        )
        return {group[len(prefix) :]: self._names.all_ours(each) for group, each in found.items()}

    async def forget(self, group: str, partitions: Collection[Partition]) -> None:
        """Delete the group's commits of these partitions, if there are any."""
        await self._commits.forget(self._names.prefix + group, self._names.all_full(partitions))

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        """Return the first and the next offset of each partition that exists."""
        return self._names.all_ours(await self._reader.bounds(self._names.all_full(partitions)))

    async def published(self, topics: Mapping[str, int]) -> Mapping[str, int]:
        """Return how many records were ever appended to each topic."""
        prefix = self._names.prefix
        found = await self._published.count({prefix + name: n for name, n in topics.items()})
        return {name[len(prefix) :]: count for name, count in found.items()}

    async def offsets_at(
        self, partitions: Collection[Partition], timestamp_ms: int
    ) -> Mapping[Partition, int]:
        """Return, for each partition, the first offset at or after that time.

        If a partition has no such offset, return the end of the partition.
        """
        found = await self._reader.offsets_at(self._names.all_full(partitions), timestamp_ms)
        return self._names.all_ours(found)

    async def topic_names(self) -> Collection[str]:
        """Return the names of all topics in the namespace, in any order."""
        prefix = self._names.prefix
        found = await self._requested(self._admin.names)
        return [name[len(prefix) :] for name in found if name.startswith(prefix)]

    async def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the number of partitions of each topic that exists."""
        names = [self._names.prefix + topic for topic in topics]
        found = await self._requested(partial(self._admin.partition_counts, names))
        return {name.removeprefix(self._names.prefix): count for name, count in found.items()}

    async def copies(self) -> Mapping[str, Copies]:
        """Return the number of replicas of each topic; empty if the log has no brokers.

        The result also says how many replicas must be in sync, for at most SETTINGS_MAX topics.
        """
        prefix = self._names.prefix
        found = await self._requested(partial(self._admin.copies, prefix))
        return {name[len(prefix) :]: copies for name, copies in found.items()}

    async def partitions(self, topic: str) -> Sequence[Partition]:
        """Return the topic's partitions in order."""
        try:
            leaders = await self._requested(
                partial(self._admin.leaders, self._names.prefix + topic)
            )
        except TopicNotFoundError as error:
            raise _not_there(topic) from error
        return [Partition(topic, index) for index in sorted(leaders)]

    async def topic(self, name: str) -> FoundTopic:
        """Return the topic as it is in the log, whichever program created it."""
        try:
            return await self._requested(partial(self._admin.topic, self._names.prefix + name))
        except TopicNotFoundError as error:
            raise _not_there(name) from error

    async def create_topic(self, topic: LogTopic) -> None:
        """Create the topic, and return when records can be appended to it.

        Raises:
            ValidationFailedError: The name is not allowed by Kafka (field `name`).
        """
        self._producer.learn(topic.name, await self._control.run(lambda: self._created(topic)))

    async def alter_topic(self, topic: LogTopic) -> None:
        """Set retention and maximum size, and add partitions up to the requested number."""
        self._producer.learn(topic.name, await self._control.run(lambda: self._altered(topic)))

    async def delete_topic(self, name: str) -> None:
        """Delete the topic with its records, if it exists."""
        await self._control.run(lambda: self._admin.delete(self._names.prefix + name))
        self._producer.forget(name)

    async def numbering_problem(self) -> str:
        """Return why an append whose acknowledgement is lost cannot be sent again safely.

        The result is empty if Kafka stores an append only once even if it is sent twice.
        """
        if not self._idempotent:
            return "ANGELIA_KAFKA_IDEMPOTENCE is off"
        try:
            await self._ask_for_id()
        except (IdRefusedError, NoIdsError) as error:
            return str(error)
        return ""

    async def ping(self) -> None:
        """Return if the log responds; otherwise raise an error."""
        await self._requested(self._admin.ping)

    async def _requested(self, look: Work[T]) -> T:
        """Run `look` on kafka-python's I/O thread, and return its result.

        Raises:
            LogUnavailableError: The brokers do not respond. If no broker has ever responded, the
                error is raised as soon as the reason is known.
        """
        if self._control_client.has_begun:
            return await self._control.run(look, seconds=CALL_TIMEOUT_S)
        try:
            async with asyncio.TaskGroup() as tasks:
                return await self._guarded(look, tasks.create_task(self._guard()))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _guarded(self, look: Work[T], guarding: asyncio.Task[str]) -> T:
        try:
            result = await self._control.run(look, seconds=CALL_TIMEOUT_S)
        except LogUnavailableError as error:
            # If `what_refuses` has found a reason why brokers do not respond, raise an error with
            # this reason, because it may be more exact.
            if problem := await guarding:
                raise LogUnavailableError(problem) from error
            raise
        guarding.cancel()
        return result

    async def _guard(self) -> str:
        """Return why brokers do not respond; empty if the reason is unknown.

        Raises:
            LogUnavailableError: The brokers refuse this client.
        """
        problem, is_silent = await what_refuses(self._bootstrap, self._credentials)
        if problem and not is_silent:
            if problem != self._refused:
                _log.error("kafka_refused", problem=problem)
            self._refused = problem
            raise LogUnavailableError(problem)
        return problem

    async def _created(self, topic: LogTopic) -> Located:
        return self._located(await self._admin.create(self._names.topic(topic)))

    async def _altered(self, topic: LogTopic) -> Located:
        return self._located(await self._admin.alter(self._names.topic(topic)))

    async def _locate(self, name: str) -> Located | None:
        """Look up the leaders of a topic again. `name` includes the namespace."""
        leaders, addresses = await self._look([name])
        return Located(leaders[name], addresses) if name in leaders else None

    def _located(self, leaders: Leaders) -> Located:
        return Located(leaders, self._control_client.addresses())

    async def _look(self, names: Collection[str]) -> PartitionLeaders:
        """Look up the leaders of these topics again. The names include the namespace."""

        async def look() -> PartitionLeaders:
            return PartitionLeaders(await self._locating.refresh(names), self._locating.addresses())

        return await self._control.run(look, seconds=CALL_TIMEOUT_S)

    async def _ask_for_id(self) -> ProducerId:
        ask = partial(new_producer_id, self._control, self._locating)
        return await self._control.run(ask, seconds=_REQUEST_TIMEOUT_S)

    def _may_commit(self) -> bool:
        return all(each.is_sure for each in self._memberships)

    async def _look_for_groups(self, names: Collection[str]) -> FoundGroups:
        """Look up the coordinators of these groups again. The names include the namespace."""
        client = self._control_client

        async def look() -> FoundGroups:
            found = found_groups(await client.find_coordinators(names))
            self._control.hand_over(self._coordinators.learn, found)
            return found

        return await self._control.run(look, seconds=COMMIT_TIMEOUT.total_seconds())

    async def _client(self, name: str, request_timeout: float = _REQUEST_TIMEOUT_S) -> Client:
        io = self._control

        async def make() -> Client:
            return Client(
                io,
                self._bootstrap,
                credentials=self._credentials,
                name=f"angelia-{name}",
                request_timeout=request_timeout,
            )

        client = await io.run(make)
        self._clients.append(client)
        return client


def _not_there(topic: str) -> TopicNotFoundError:
    return TopicNotFoundError(f"topic {topic} does not exist in Kafka")


def _closing(close: Callable[[], None]) -> Callable[[], Coroutine[Any, Any, None]]:
    async def work() -> None:
        close()

    return work

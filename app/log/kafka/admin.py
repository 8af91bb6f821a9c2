"""Creates, alters and deletes topics. Each call waits until the brokers have made the change."""

from collections.abc import Callable, Collection, Coroutine, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)

from app.domain.durability import Copies, Replication
from app.domain.errors import (
    AngeliaError,
    LogUnavailableError,
    TopicNotFoundError,
    ValidationFailedError,
)
from app.domain.message import Partition
from app.log.interface import FoundTopic, LogTopic
from app.log.kafka.bridge import IoThread, Untyped
from app.log.kafka.client import (
    FAILED_TRY,
    NO_LEADER,
    TOPIC_RESOURCE,
    UNKNOWN_TOPIC,
    Client,
    Deadline,
    Leaders,
    reason,
)
from app.log.kafka.offsets_by_time import EARLIEST, list_offsets

T = TypeVar("T")

ADMIN_TIMEOUT_S: Final = 10.0
LOOK_TIMEOUT_S: Final = 3.0
# Kafka's limit for a topic is larger than the topic's maximum message size in Angelia, at least by
# this number of bytes. Kafka's limit is for a whole record batch with keys and headers, but the
# maximum message size only for the body of one message.
HEADER_ROOM: Final = 128 * 1024
# Kafka's default limit for the size of a record batch, in bytes.
KAFKA_BATCH_DEFAULT: Final = 1_048_588

# The maximum number of topics whose settings are read with one request (about 100 KB).
SETTINGS_MAX: Final = 2_000

_IN_SYNC: Final = "min.insync.replicas"
_CLEANUP_POLICY: Final = "cleanup.policy"
_RETENTION_MS: Final = "retention.ms"
_DELETE: Final = "delete"
_TOPIC_EXISTS: Final = 36
_INVALID_NAME_CODES: Final = frozenset({17, 44})
_INVALID_PARTITIONS: Final = 37
_INVALID_CONFIG: Final = 40
_SET: Final = 0
# The longest retention that a `timedelta` can express, in milliseconds. Kafka allows larger
# numbers.
_RETENTION_MS_MAX: Final = timedelta.max // timedelta(milliseconds=1)
_SEGMENT_MIN: Final = timedelta(minutes=10)
_SEGMENT_MAX: Final = timedelta(days=7)
_SEGMENTS_PER_RETENTION: Final = 4
_REQUEST_TIMEOUT_MS: Final = 3000

# Error codes for temporary states of the cluster: there is no controller yet, too few brokers are
# running, or a broker is too slow.
_TRANSIENT_CODES: Final = frozenset({5, 7, 14, 15, 38, 41, 60, 89})


class _TransientError(Exception):
    """The cluster cannot execute the request now. The same request may succeed soon."""


class Admin:
    """Creates, changes and deletes topics, on kafka-python's I/O thread.

    Names include the namespace.
    """

    def __init__(self, io: IoThread, client: Client, *, replication: Replication) -> None:
        self._io = io
        self._client = client
        self._replication = replication

    async def create(self, topic: LogTopic) -> Leaders:
        """Create the topic, or change an existing one; return the leaders of its partitions."""
        await self._until_done(lambda: self._create(topic))
        return await self._until_ready(topic)

    async def alter(self, topic: LogTopic) -> Leaders:
        """Set retention and maximum size, and add partitions; return the partitions' leaders."""
        await self._until_done(lambda: self._configure(topic))
        found = await self._until_known(topic.name)
        if len(found) < topic.partitions:
            await self._until_done(lambda: self._add_partitions(topic))
        return await self._until_ready(topic)

    async def delete(self, name: str) -> None:
        """Delete the topic with its records, if it exists."""
        await self._until_done(lambda: self._delete(name))
        deadline = Deadline(self._io, ADMIN_TIMEOUT_S)
        while name in await self._refreshed(name):
            await deadline.pause(f"{name} is still there")

    async def leaders(self, name: str) -> Leaders:
        """Look up the leader of each partition of the topic again.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        found = (await self._refreshed(name)).get(name)
        if found is None:
            raise _not_found(name)
        return found

    async def topic(self, name: str) -> FoundTopic:
        """Return the topic as it is in the log, whichever program created it.

        Raises:
            LogUnavailableError: No broker responds, or this client may not read the topic's
                settings.
        """
        leaders = await self.leaders(name)
        found = await self._looked(
            lambda: self._client.settings([name], _CLEANUP_POLICY, _RETENTION_MS)
        )
        settings = found.get(name)
        if not settings:
            message = f"Kafka does not tell the settings of {name}: is DescribeConfigs allowed?"
            raise LogUnavailableError(message)
        return FoundTopic(len(leaders), retention_in(settings))

    async def names(self) -> Collection[str]:
        """Return the names of all topics of the cluster except Kafka's internal ones.

        Raises:
            LogUnavailableError: No broker responds.
        """
        return list(await self._looked(self._client.topics))

    async def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the number of partitions of each topic that exists.

        Raises:
            LogUnavailableError: No broker responds.
        """
        return await self._looked(lambda: self._client.partition_counts(topics))

    async def copies(self, prefix: str) -> Mapping[str, Copies]:
        """Return the number of replicas of each topic whose name begins with `prefix`.

        Raises:
            LogUnavailableError: No broker responds.
        """
        return await self._looked(lambda: self._copies(prefix))

    async def ping(self) -> None:
        """Return if a broker responds; otherwise raise an error.

        Raises:
            LogUnavailableError: No broker responds.
        """
        try:
            await self._client.refresh([])
        except FAILED_TRY as error:
            message = f"Kafka does not answer: {error}"
            raise LogUnavailableError(message) from error

    async def _copies(self, prefix: str) -> Mapping[str, Copies]:
        found = await self._client.topics()
        ours = {name: replicas for name, replicas in found.items() if name.startswith(prefix)}
        several = sorted(name for name, replicas in ours.items() if replicas > 1)
        # Read this setting only of topics with several replicas, because a single replica is always
        # in sync.
        requested = several[:SETTINGS_MAX]
        settings = await self._client.settings(requested, _IN_SYNC) if requested else {}
        in_sync = {name: int(each[_IN_SYNC]) for name, each in settings.items() if each}
        return {name: Copies(replicas, in_sync.get(name)) for name, replicas in ours.items()}

    async def _create(self, topic: LogTopic) -> None:
        kind = CreateTopicsRequest.CreatableTopic
        configs = [
            kind.CreatableTopicConfig(name=name, value=value)
            for name, value in configuration(topic, self._replication.in_sync()).items()
        ]
        wanted = kind(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=self._replication.factor,
            assignments=[],
            configs=configs,
        )
        response = await self._client.send_controller(
            CreateTopicsRequest(
                topics=[wanted], timeout_ms=_REQUEST_TIMEOUT_MS, validate_only=False
            )
        )
        answer = response.topics[0]
        if answer.error_code == _TOPIC_EXISTS:
            await self._take_over(topic)
        elif answer.error_code:
            raise _error(answer, topic.name)

    async def _take_over(self, topic: LogTopic) -> None:
        try:
            await self.alter(topic)
        except TopicNotFoundError as error:
            # Raise an error that leads to a retry. Either all brokers will know the existing topic
            # soon, or the topic was deleted meanwhile and must be created.
            message = f"{topic.name} exists, and not all brokers know it"
            raise _TransientError(message) from error

    async def _configure(self, topic: LogTopic) -> None:
        # Require at most as many replicas in sync as the topic has. If more were required, no
        # append would succeed.
        replicas = await self._client.replicas(topic.name)
        in_sync = self._replication.in_sync(replicas) if replicas else None
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        configs = [
            kind.AlterableConfig(name=name, config_operation=_SET, value=value)
            for name, value in configuration(topic, in_sync).items()
        ]
        resource = kind(resource_type=TOPIC_RESOURCE, resource_name=topic.name, configs=configs)
        response = await self._client.send_controller(
            IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        )
        answer = response.responses[0]
        if answer.error_code:
            raise _error(answer, topic.name)

    async def _add_partitions(self, topic: LogTopic) -> None:
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(
            name=topic.name, count=topic.partitions, assignments=None
        )
        response = await self._client.send_controller(
            CreatePartitionsRequest(
                topics=[wanted], timeout_ms=_REQUEST_TIMEOUT_MS, validate_only=False
            )
        )
        answer = response.results[0]
        # Accept the error code for invalid partitions. It means that another process has already
        # added the partitions.
        if answer.error_code and answer.error_code != _INVALID_PARTITIONS:
            raise _error(answer, topic.name)

    async def _delete(self, name: str) -> None:
        response = await self._client.send_controller(
            DeleteTopicsRequest(topic_names=[name], timeout_ms=_REQUEST_TIMEOUT_MS, max_version=5)
        )
        answer = response.responses[0]
        if answer.error_code and answer.error_code != UNKNOWN_TOPIC:
            raise _error(answer, name)

    async def _until_done(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Repeat `step` until the cluster has made the change or has refused it.

        Raises:
            LogUnavailableError: The cluster does not finish in time.
        """
        deadline = Deadline(self._io, ADMIN_TIMEOUT_S)
        while True:
            try:
                return await step()
            except (*FAILED_TRY, _TransientError) as error:
                await deadline.pause(error)

    async def _until_known(self, name: str) -> Leaders:
        """Wait until all brokers know an existing topic, and return the leaders of its partitions.

        The brokers learn of a topic one after the other.
        """
        deadline = Deadline(self._io, ADMIN_TIMEOUT_S)
        while (found := (await self._refreshed(name)).get(name)) is None:
            await deadline.pause(f"{name} exists, and not all brokers know it")
        return found

    async def _until_ready(self, topic: LogTopic) -> Leaders:
        """Wait until each partition has an active leader, so that an append succeeds."""
        deadline = Deadline(self._io, ADMIN_TIMEOUT_S)
        while True:
            found = (await self._refreshed(topic.name)).get(topic.name, {})
            if len(found) >= topic.partitions and NO_LEADER not in found.values():
                break
            await deadline.pause(f"{topic.name} has no leaders yet")
        wanted = {Partition(topic.name, index): EARLIEST for index in found}
        await list_offsets(self._io, self._client, wanted, seconds=ADMIN_TIMEOUT_S)
        return found

    async def _refreshed(self, name: str) -> Mapping[str, Leaders]:
        return await self._looked(lambda: self._client.refresh([name]))

    async def _looked(self, look: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `look` until a broker responds, and return its result.

        Raises:
            LogUnavailableError: No broker responds in time.
        """
        deadline = Deadline(self._io, LOOK_TIMEOUT_S)
        while True:
            try:
                return await look()
            except FAILED_TRY as error:
                await deadline.pause(error)


def configuration(topic: LogTopic, in_sync: int | None) -> Mapping[str, str]:
    """Return the topic's settings as Kafka names them.

    `in_sync` is how many replicas must be in sync for an append. If it is None, the result does not
    have this setting. Kafka drops only whole segments (files of a partition), so the result has a
    time for segments that is only a part of the retention.
    """
    segment = min(_SEGMENT_MAX, max(_SEGMENT_MIN, topic.retention / _SEGMENTS_PER_RETENTION))
    insync = {} if in_sync is None else {_IN_SYNC: str(in_sync)}
    return {
        **insync,
        _CLEANUP_POLICY: _DELETE,
        _RETENTION_MS: _milliseconds(topic.retention),
        "segment.ms": _milliseconds(segment),
        "max.message.bytes": str(max(KAFKA_BATCH_DEFAULT, topic.message_size_max + HEADER_ROOM)),
    }


def retention_in(settings: Mapping[str, str]) -> timedelta:
    """Return how long a topic with these settings keeps messages; `timedelta.max` means forever."""
    milliseconds = int(settings.get(_RETENTION_MS, -1))
    if milliseconds < 0 or _DELETE not in settings.get(_CLEANUP_POLICY, _DELETE):
        return timedelta.max
    return timedelta(milliseconds=min(milliseconds, _RETENTION_MS_MAX))


def _milliseconds(duration: timedelta) -> str:
    return str(duration // timedelta(milliseconds=1))


def _not_found(name: str) -> TopicNotFoundError:
    return TopicNotFoundError(f"topic {name} does not exist in Kafka")


def _error(answer: Untyped, name: str) -> AngeliaError | _TransientError:
    """Return the error in a topic's response as one of Angelia's errors."""
    code = answer.error_code
    message = getattr(answer, "error_message", None) or reason(code)
    if code in _TRANSIENT_CODES:
        return _TransientError(message)
    if code == UNKNOWN_TOPIC:
        return _not_found(name)
    if code in _INVALID_NAME_CODES:
        return ValidationFailedError.of("name", message)
    if code == _INVALID_PARTITIONS:
        return ValidationFailedError.of("partitions", message)
    if code == _INVALID_CONFIG:
        return ValidationFailedError.of("retentionTime.duration", message)
    return LogUnavailableError(f"Kafka refused it: {message}")

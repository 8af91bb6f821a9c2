"""A set of connections to the brokers, and which broker leads which partition.

A broker answers one connection's requests in order, so whatever may wait long (a membership, the
look-ups that appends wait for, the rest) has a `Client` of its own. Everything here runs on the I/O
thread.
"""

import ssl
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from socket import socket
from typing import Final

import structlog
from kafka import errors
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from app.domain.errors import LogUnavailableError
from app.log.kafka.api_versions import COORDINATORS_OF_GROUPS, unspoken
from app.log.kafka.bridge import IoThread, Untyped
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.link import connect_timeout

NO_LEADER: Final = -1
RETRY_S: Final = 0.05

# What a broker answers when it is the wrong one to ask, or not ready yet: look again, ask again.
STALE_LEADER_CODES: Final = frozenset({3, 5, 6, 9, 56, 74, 75, 78, 100, 103})
STALE_COORDINATOR_CODES: Final = frozenset({14, 15, 16})
UNKNOWN_TOPIC: Final = 3
# What settings are of, where it is a topic.
TOPIC_RESOURCE: Final = 2

_FRAME_BYTES_MAX: Final = 128 * 1024 * 1024
_RECONNECT_BACKOFF_MAX_MS: Final = 400
_COORDINATOR_KEYS_MAX: Final = 500

_log = structlog.get_logger(__name__)

Leaders = Mapping[int, int]


class NotSentError(Exception):
    """The request did not leave this process: asking again cannot do anything twice."""


def reason(code: int) -> str:
    """A broker's error code in words."""
    kind = errors.for_code(code)
    return f"{kind.__name__}: {getattr(kind, 'description', '') or 'no description'}"


class ClosingSocket(KafkaNetSocket):  # type: ignore[misc]  # kafka has no types
    """A plain connection whose socket is closed when it fails; kafka-python's own is left open."""

    SCHEMES = ("closing",)

    async def sock_connect(
        self, net: Untyped, sock: socket, *where: Untyped, **until: Untyped
    ) -> socket:
        """The connected socket."""
        try:
            connected: socket = await super().sock_connect(net, sock, *where, **until)
        except BaseException:
            sock.close()
            raise
        return connected


class SecuredTransport(KafkaSSLTransport):  # type: ignore[misc]  # kafka has no types
    """A connection by TLS; kafka-python's own waits for ever for a handshake."""

    async def handshake_until(self, timeout_at: float | None) -> None:
        """Return when it can be used; `timeout_at` by the monotonic clock."""
        while True:
            try:
                self._sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at=timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at=timeout_at)
            else:
                return


class SecuredConnections(KafkaConnectionManager):  # type: ignore[misc]  # kafka has no types
    """kafka-python's connections, with what each begins with as it is then."""

    def __init__(self, net: Untyped, credentials: KafkaCredentials, **configs: Untyped) -> None:
        self._credentials = credentials
        super().__init__(net, **configs)

    def get_connection(self, node_id: Untyped, **how: Untyped) -> Untyped:
        """As kafka-python's."""
        if node_id not in self._conns:
            self.config.update(self._credentials.options())
        return super().get_connection(node_id, **how)

    async def _build_transport(self, node: Untyped, timeout_at: float | None = None) -> Untyped:
        """As kafka-python's, which leaves a socket open whose handshake fails."""
        context = self._credentials.context()
        sock = await create_connection(
            self._net,
            node.host,
            node.port,
            self.config["socket_options"],
            proxy_url=self.config["proxy_url"],
            timeout_at=timeout_at,
        )
        if context is None:
            return KafkaTCPTransport(self._net, sock, host=node.host)
        transport = SecuredTransport(self._net, sock, host=node.host, ssl_context=context)
        try:
            await transport.handshake_until(timeout_at)
        except BaseException:
            transport.close()
            raise
        return transport


class Client:
    """Connections of its own to each broker, with cached leaders and group coordinators."""

    def __init__(
        self,
        io: IoThread,
        bootstrap: str,
        *,
        credentials: KafkaCredentials,
        name: str,
        request_timeout: float,
    ) -> None:
        """Call on the I/O thread. `request_timeout`, in seconds, closes a connection that hangs."""
        self._io = io
        self._request_timeout = request_timeout
        self._credentials = credentials
        self._setup_timeout_ms = connect_timeout(credentials.security) // timedelta(milliseconds=1)
        self.manager = SecuredConnections(
            io.net,
            credentials,
            bootstrap_servers=bootstrap,
            client_id=name,
            # Its way to choose the kind of socket: no proxy is meant.
            proxy_url="closing://",
            request_timeout_ms=int(request_timeout * 1000),
            reconnect_backoff_max_ms=_RECONNECT_BACKOFF_MAX_MS,
            socket_connection_setup_timeout_ms=self._setup_timeout_ms,
            socket_connection_setup_timeout_max_ms=self._setup_timeout_ms,
            receive_message_max_bytes=_FRAME_BYTES_MAX,
            # It fails what is over this, it does not queue; each user of it has a bound of its own.
            max_in_flight_requests_per_connection=10_000,
        )
        # Not an option of the manager's; without it a look at a missing topic would create it.
        self.manager.cluster.config["allow_auto_create_topics"] = False
        self._leaders: dict[str, Leaders] = {}
        self._coordinators: dict[str, int] = {}
        self.closed = False

    @property
    def has_begun(self) -> bool:
        """Whether a broker has ever answered. From any thread."""
        return bool(self.manager.bootstrapped)

    def close(self) -> None:
        """Close the connections; requests under way fail."""
        self.closed = True
        self.manager.close()

    async def send(self, node: int, request: Untyped, *, timeout: float | None = None) -> Untyped:  # noqa: ASYNC109 - not asyncio
        """The broker's response. NotSentError when there is no connection; a Kafka error later."""
        connection = await self._connection(node)
        limit = self._request_timeout if timeout is None else timeout
        return await connection.send_request(request, request_timeout_ms=int(limit * 1000))

    async def send_any(self, request: Untyped) -> Untyped:
        """The response of any broker."""
        return await self.send(await self._any_node(), request)

    async def send_controller(self, request: Untyped) -> Untyped:
        """The response of the controller, or of a broker that forwards to it."""
        await self.ready()
        controller = self.manager.cluster.controller
        if controller is None or controller.node_id not in self._nodes():
            return await self.send_any(request)
        return await self.send(controller.node_id, request)

    async def ready(self) -> None:
        """Wait until the brokers' addresses are known, at most the connection timeout.

        NotSentError, also of brokers that do not speak what is asked of them.
        """
        if not self.manager.bootstrapped:
            try:
                begun = self.manager.bootstrap_async()
                await self.manager.wait_for(begun, self._setup_timeout_ms)
            except errors.KafkaError as error:
                raise NotSentError(str(error)) from error
        known = self.manager.broker_version_data
        if known is not None and (missing := unspoken(known.api_versions)):
            raise NotSentError(missing)

    async def leaders(self, topics: Collection[str]) -> Mapping[str, Leaders]:
        """Partition → leader (NO_LEADER for none) of each topic that exists; cached."""
        if missing := [topic for topic in topics if topic not in self._leaders]:
            await self.refresh(missing)
        return {topic: self._leaders[topic] for topic in topics if topic in self._leaders}

    async def refresh(self, topics: Collection[str]) -> Mapping[str, Leaders]:
        """As `leaders`, asked anew. A topic does not exist when no broker knows it.

        They hear of a new one one after the other.
        """
        node = await self._any_node()
        response = await self.send(node, _metadata(_named(topics)))
        # Brokers may have moved: later connections go by what this says.
        self.manager.cluster.update_metadata(response)
        self.forget(topics)
        self._learn(response)
        if missing := [topic for topic in topics if topic not in self._leaders]:
            await self._ask_others(missing, but=node)
        return {topic: self._leaders[topic] for topic in topics if topic in self._leaders}

    async def replicas(self, topic: str) -> int:
        """How many replicas each of its partitions has, asked anew; 0 where that is not known."""
        response = await self.send_any(_metadata(_named([topic])))
        parts = [part for each in response.topics for part in each.partitions]
        return min((len(part.replica_nodes) for part in parts), default=0)

    async def topics(self) -> Mapping[str, int]:
        """As `replicas`, of all topics of the cluster but the brokers' own."""
        response = await self.send_any(_metadata(None))
        return {
            topic.name: min((len(part.replica_nodes) for part in topic.partitions), default=0)
            for topic in response.topics
            if not topic.is_internal
        }

    async def settings(self, topics: Collection[str], name: str) -> Mapping[str, str]:
        """What the setting of that name is for these topics, of which one may be left out."""
        kind = DescribeConfigsRequest.DescribeConfigsResource
        asked = [
            kind(resource_type=TOPIC_RESOURCE, resource_name=each, configuration_keys=[name])
            for each in topics
        ]
        response = await self.send_any(
            DescribeConfigsRequest(
                resources=asked, include_synonyms=False, include_documentation=False
            )
        )
        return {
            each.resource_name: config.value
            for each in response.results
            for config in each.configs or ()
            if config.name == name and config.value is not None
        }

    def addresses(self) -> dict[int, tuple[str, int]]:
        """Host and port of each broker, as the last answer about topics had them."""
        brokers = self.manager.cluster.brokers()
        return {broker.node_id: (broker.host, broker.port) for broker in brokers}

    def forget(self, topics: Iterable[str]) -> None:
        """Ask anew for their leaders next time."""
        for topic in topics:
            self._leaders.pop(topic, None)

    async def coordinators(self, groups: Collection[str]) -> Mapping[str, int]:
        """Each group's coordinator; cached. A group whose coordinator is not up is left out."""
        if missing := [group for group in groups if group not in self._coordinators]:
            await self.find_coordinators(missing)
        return {group: self._coordinators[group] for group in groups if group in self._coordinators}

    async def find_coordinators(self, groups: Collection[str]) -> list[Untyped]:
        """What brokers say of each group, asked anew: node, host and port, or an error code."""
        self.forget_coordinators(groups)
        names, found = list(groups), list[Untyped]()
        for start in range(0, len(names), _COORDINATOR_KEYS_MAX):
            some = names[start : start + _COORDINATOR_KEYS_MAX]
            response = await self.send_any(
                FindCoordinatorRequest(
                    key_type=0, coordinator_keys=some, min_version=COORDINATORS_OF_GROUPS[1]
                )
            )
            found += response.coordinators
            for each in response.coordinators:
                if each.error_code == 0:
                    self._coordinators[each.key] = each.node_id
        return found

    def forget_coordinators(self, groups: Iterable[str]) -> None:
        """Look for their coordinators anew next time."""
        for group in groups:
            self._coordinators.pop(group, None)

    async def _any_node(self) -> int:
        await self.ready()
        node: int | None = self.manager.least_loaded_node()
        if node is None:
            message = "no broker can be reached"
            raise NotSentError(message)
        return node

    async def _ask_others(self, topics: Collection[str], *, but: int) -> None:
        """Take over what any other broker knows of these."""

        async def ask(node: int) -> None:
            # One that does not answer knows of nothing that the others do not.
            with suppress(*FAILED_TRY):
                self._learn(await self.send(node, _metadata(_named(topics))))

        await self._io.gather([partial(ask, node) for node in self._nodes() - {but}])

    def _learn(self, response: Untyped) -> None:
        for topic in response.topics:
            if topic.error_code == 0:
                self._leaders[topic.name] = {
                    each.partition_index: each.leader_id for each in topic.partitions
                }

    async def _connection(self, node: int) -> Untyped:
        await self.ready()
        if node not in self._nodes():
            await self.refresh([])
        try:
            connection = self.manager.get_connection(node)
            await connection.init_future
        except Exception as error:
            # Whatever brokers have said of themselves and of others: nothing was sent.
            raise NotSentError(self._credentials.explained(error)) from error
        return connection

    def _nodes(self) -> set[int]:
        return {broker.node_id for broker in self.manager.cluster.brokers()}


def _named(topics: Iterable[str]) -> list[Untyped]:
    return [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]


def _metadata(topics: Collection[Untyped] | None) -> Untyped:
    """What asks about these topics; None: about all there are."""
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
        min_version=1,
        max_version=12,
    )


class Deadline:
    """An end to retrying: `pause` waits between two tries, and raises once the time is over."""

    def __init__(self, io: IoThread, seconds: float) -> None:
        self._io = io
        self._end = time.monotonic() + seconds

    async def pause(self, cause: object) -> None:
        """Wait before the next try; LogUnavailableError naming `cause` when there is none left."""
        if time.monotonic() + RETRY_S >= self._end:
            message = f"Kafka did not answer in time: {cause}"
            raise LogUnavailableError(message)
        await self._io.sleep(RETRY_S)


# What a try may end with that is worth another: no connection, a connection lost, a slow answer.
FAILED_TRY: Final = (NotSentError, errors.KafkaError, OSError)

"""Connections to the brokers by kafka-python, and the cached leaders of partitions.

A broker responds to the requests of one connection in order. So there is a separate `Client` for
each use that must not wait for other uses: one for a group membership, one for the look-ups for
appends, and one for all other requests. Everything in this module runs on kafka-python's I/O
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
from kafka.future import Future
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

# Error codes with which a broker says that it is the wrong broker, or not ready yet. After such a
# code, the leader is looked up again, and the request is repeated.
STALE_LEADER_CODES: Final = frozenset({3, 5, 6, 9, 56, 74, 75, 78, 100, 103})
STALE_COORDINATOR_CODES: Final = frozenset({14, 15, 16})
UNKNOWN_TOPIC: Final = 3
# The number that means "topic" in requests for the settings of a resource.
TOPIC_RESOURCE: Final = 2

_FRAME_BYTES_MAX: Final = 128 * 1024 * 1024
_RECONNECT_BACKOFF_MAX_MS: Final = 400
_COORDINATOR_KEYS_MAX: Final = 500

_log = structlog.get_logger(__name__)

Leaders = Mapping[int, int]


class NotSentError(Exception):
    """The request did not leave this process, so a retry cannot repeat its effect."""


def reason(code: int) -> str:
    """Return the text for a broker's error code."""
    kind = errors.for_code(code)
    return f"{kind.__name__}: {getattr(kind, 'description', '') or 'no description'}"


class ClosingSocket(KafkaNetSocket):  # type: ignore[misc]  # kafka has no types
    """A plain connection that closes its socket when it fails.

    kafka-python's own connection leaves the socket open.
    """

    SCHEMES = ("closing",)

    async def sock_connect(
        self, net: Untyped, sock: socket, *where: Untyped, **until: Untyped
    ) -> socket:
        """Return the connected socket. If connecting fails, close the socket."""
        try:
            connected: socket = await super().sock_connect(net, sock, *where, **until)
        except BaseException:
            sock.close()
            raise
        return connected


class PlainTransport(KafkaTCPTransport):  # type: ignore[misc]  # kafka has no types
    """A plain connection that passes on the last bytes before it ends.

    kafka-python drops these bytes, which may contain the reason why a broker closes the connection.
    """

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        received, error = super()._sock_recv()
        # If bytes were received, return them without the error. The next read finds again that the
        # connection has ended.
        return received, None if received else error


class SecuredTransport(KafkaSSLTransport):  # type: ignore[misc]  # kafka has no types
    """A TLS connection with a deadline for the handshake.

    kafka-python's own TLS connection has no deadline. This connection also passes on the last bytes
    before it ends, like `PlainTransport`.
    """

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        received, error = super()._sock_recv()
        return received, None if received else error

    async def handshake_until(self, timeout_at: float | None) -> None:
        """Finish the handshake by `timeout_at` (monotonic clock)."""
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
    """Opens kafka-python's connections, each with the current credentials."""

    def __init__(self, net: Untyped, credentials: KafkaCredentials, **configs: Untyped) -> None:
        self._credentials = credentials
        super().__init__(net, **configs)

    def get_connection(self, node_id: Untyped, **how: Untyped) -> Untyped:
        """Open a connection as kafka-python does, with the current credentials."""
        if node_id in self._conns:
            return super().get_connection(node_id, **how)
        self.config.update(self._credentials.options())
        connection = super().get_connection(node_id, **how)
        connection.init_future.add_errback(self._not_opened)
        return connection

    def _not_opened(self, error: Exception) -> None:
        tokens = self._credentials.tokens
        if tokens is not None and isinstance(error, errors.SaslAuthenticationFailedError):
            tokens.refused_from_thread()

    async def _build_transport(self, node: Untyped, timeout_at: float | None = None) -> Untyped:
        """Connect as kafka-python does, but close the socket if the handshake fails.

        Raises:
            KafkaConnectionError: The connection failed. Errors of other libraries become this one.
                They would end loops of kafka-python that nothing starts again.
        """
        try:
            return await self._transport(node, timeout_at)
        except errors.KafkaError:
            raise
        except Exception as error:
            raise errors.KafkaConnectionError(str(error)) from error

    async def _transport(self, node: Untyped, timeout_at: float | None) -> Untyped:
        await self._token_is_there()
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
            return PlainTransport(self._net, sock, host=node.host)
        transport = SecuredTransport(self._net, sock, host=node.host, ssl_context=context)
        try:
            await transport.handshake_until(timeout_at)
        except BaseException:
            transport.close()
            raise
        return transport

    async def _token_is_there(self) -> None:
        """Wait until there is an access token, if the login needs one.

        Raises:
            RefusedError: There is no access token.
        """
        tokens = self._credentials.tokens
        if tokens is None:
            return
        known = Future()

        def wake() -> None:
            # Ignore the error that is raised if the thread is already closed.
            with suppress(RuntimeError):
                self._net.call_soon_threadsafe(lambda: known.success(None))

        tokens.notify_from_thread(wake)
        await known
        tokens.token()


class Client:
    """Connections to each broker, with cached leaders and group coordinators."""

    def __init__(
        self,
        io: IoThread,
        bootstrap: str,
        *,
        credentials: KafkaCredentials,
        name: str,
        request_timeout: float,
    ) -> None:
        """Create the client on the I/O thread.

        A connection without a response is closed after `request_timeout` seconds.
        """
        self._io = io
        self._request_timeout = request_timeout
        self._credentials = credentials
        self._setup_timeout_ms = connect_timeout(credentials.security) // timedelta(milliseconds=1)
        self.manager = SecuredConnections(
            io.net,
            credentials,
            bootstrap_servers=bootstrap,
            client_id=name,
            # Use the socket class of Angelia. kafka-python chooses the class by the scheme of this
            # proxy URL; no proxy is used.
            proxy_url="closing://",
            request_timeout_ms=int(request_timeout * 1000),
            reconnect_backoff_max_ms=_RECONNECT_BACKOFF_MAX_MS,
            socket_connection_setup_timeout_ms=self._setup_timeout_ms,
            socket_connection_setup_timeout_max_ms=self._setup_timeout_ms,
            receive_message_max_bytes=_FRAME_BYTES_MAX,
            # Set a limit that is never reached, because kafka-python raises an error for requests
            # above the limit. Each user of the client has its own limit.
            max_in_flight_requests_per_connection=10_000,
        )
        # Prevent look-ups from creating topics that do not exist. kafka-python's connection manager
        # has no option for this, so change the settings of its cluster object.
        self.manager.cluster.config["allow_auto_create_topics"] = False
        self._leaders: dict[str, Leaders] = {}
        self._coordinators: dict[str, int] = {}
        self.closed = False

    @property
    def has_begun(self) -> bool:
        """Whether a broker has ever responded. Callable from any thread."""
        return bool(self.manager.bootstrapped)

    def close(self) -> None:
        """Close the connections; running requests fail."""
        self.closed = True
        self.manager.close()

    async def send(self, node: int, request: Untyped, *, timeout: float | None = None) -> Untyped:  # noqa: ASYNC109 - the coroutine does not run on asyncio
        """Send the request to the broker `node`, and return the response.

        Raises:
            NotSentError: There is no connection. All other errors are those of kafka-python.
        """
        connection = await self._connection(node)
        limit = self._request_timeout if timeout is None else timeout
        return await connection.send_request(request, request_timeout_ms=int(limit * 1000))

    async def send_any(self, request: Untyped) -> Untyped:
        """Return the response of any broker."""
        return await self.send(await self._any_node(), request)

    async def send_controller(self, request: Untyped) -> Untyped:
        """Return the response of the controller.

        The request may go to another broker, which forwards it to the controller.
        """
        await self.ready()
        controller = self.manager.cluster.controller
        if controller is None or controller.node_id not in self._nodes():
            return await self.send_any(request)
        return await self.send(controller.node_id, request)

    async def ready(self) -> None:
        """Wait until the brokers' addresses are known, at most as long as connecting may take.

        Raises:
            NotSentError: There is no connection, or the brokers lack a required API version.
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
        """Return the leader of each partition of existing topics, from the cache if possible.

        A partition without a leader has NO_LEADER.
        """
        if missing := [topic for topic in topics if topic not in self._leaders]:
            await self.refresh(missing)
        return {topic: self._leaders[topic] for topic in topics if topic in self._leaders}

    async def refresh(self, topics: Collection[str]) -> Mapping[str, Leaders]:
        """Look up the leader of each partition of existing topics again.

        The brokers learn of a new topic one after the other. So a topic counts as not existing only
        if no broker knows it.
        """
        node = await self._any_node()
        response = await self.send(node, _metadata(_named(topics)))
        # Use the addresses of brokers in this response for later connections, because brokers may
        # have new addresses.
        self.manager.cluster.update_metadata(response)
        self.forget(topics)
        self._learn(response)
        if missing := [topic for topic in topics if topic not in self._leaders]:
            await self._ask_others(missing, but=node)
        return {topic: self._leaders[topic] for topic in topics if topic in self._leaders}

    async def replicas(self, topic: str) -> int:
        """Look up how many replicas each partition of the topic has; 0 if the number is unknown."""
        response = await self.send_any(_metadata(_named([topic])))
        parts = [part for each in response.topics for part in each.partitions]
        return min((len(part.replica_nodes) for part in parts), default=0)

    async def topics(self) -> Mapping[str, int]:
        """Return the number of replicas of all topics except Kafka's internal ones."""
        response = await self.send_any(_metadata(None))
        return {
            topic.name: min((len(part.replica_nodes) for part in topic.partitions), default=0)
            for topic in response.topics
            if not topic.is_internal
        }

    async def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the number of partitions of each of these topics that the broker knows."""
        response = await self.send_any(_metadata(_named(topics)))
        return {topic.name: len(topic.partitions) for topic in response.topics if topic.partitions}

    async def settings(
        self, topics: Collection[str], *names: str
    ) -> Mapping[str, Mapping[str, str]]:
        """Return, for each topic, the settings that are in `names`. Unknown topics are left out."""
        kind = DescribeConfigsRequest.DescribeConfigsResource
        requested = [
            kind(resource_type=TOPIC_RESOURCE, resource_name=each, configuration_keys=[*names])
            for each in topics
        ]
        response = await self.send_any(
            DescribeConfigsRequest(
                resources=requested, include_synonyms=False, include_documentation=False
            )
        )
        return {
            each.resource_name: {
                config.name: config.value
                for config in each.configs or ()
                if config.name in names and config.value is not None
            }
            for each in response.results
        }

    def addresses(self) -> dict[int, tuple[str, int]]:
        """Return host and port of each broker, as in the last response to a look-up of topics."""
        brokers = self.manager.cluster.brokers()
        return {broker.node_id: (broker.host, broker.port) for broker in brokers}

    def forget(self, topics: Iterable[str]) -> None:
        """Forget the leaders of the topics, so that they are looked up again."""
        for topic in topics:
            self._leaders.pop(topic, None)

    async def coordinators(self, groups: Collection[str]) -> Mapping[str, int]:
        """Return each group's coordinator, from the cache if possible.

        A group without a running coordinator is left out.
        """
        if missing := [group for group in groups if group not in self._coordinators]:
            await self.find_coordinators(missing)
        return {group: self._coordinators[group] for group in groups if group in self._coordinators}

    async def find_coordinators(self, groups: Collection[str]) -> list[Untyped]:
        """Look up each group's coordinator again.

        Each element of the result has the number, host and port of the broker that is the
        coordinator, or an error code.
        """
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
        """Forget the coordinators of the groups, so that they are looked up again."""
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
        """Ask all brokers except `but` about these topics, and cache their responses."""

        async def ask(node: int) -> None:
            # Ignore the error of a broker that does not respond.
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
            # Raise NotSentError, with the reason in words, because the request was not sent.
            first = error.__cause__ if isinstance(error.__cause__, Exception) else error
            raise NotSentError(self._credentials.explained(first)) from error
        return connection

    def _nodes(self) -> set[int]:
        return {broker.node_id for broker in self.manager.cluster.brokers()}


def _named(topics: Iterable[str]) -> list[Untyped]:
    return [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]


def _metadata(topics: Collection[Untyped] | None) -> Untyped:
    """Return a metadata request for these topics. None means all topics."""
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
        min_version=1,
        max_version=12,
    )


class Deadline:
    """A time limit for retries."""

    def __init__(self, io: IoThread, seconds: float) -> None:
        self._io = io
        self._end = time.monotonic() + seconds

    async def pause(self, cause: object) -> None:
        """Wait before the next attempt. If no time is left for another attempt, raise an error.

        Raises:
            LogUnavailableError: No time is left; the error names `cause`.
        """
        if time.monotonic() + RETRY_S >= self._end:
            message = f"Kafka did not answer in time: {cause}"
            raise LogUnavailableError(message)
        await self._io.sleep(RETRY_S)


# The errors after which a request is repeated: no connection, a lost connection, a slow response.
FAILED_TRY: Final = (NotSentError, errors.KafkaError, OSError)

"""Names: what they stand for is checked, and nothing else is dialled."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_network

import httpx
import pytest
from structlog.testing import capture_logs

from app.domain.network.egress import Address, EgressPolicy
from app.domain.network.egress_proxy import EgressProxy
from tests.fakes.egress import LOOPBACK
from tests.fakes.subscriber import Subscriber
from workers.transport.connection import Connection
from workers.transport.deadline_timer import DeadlineTimer
from workers.transport.dialer import ConnectionOrigin, Dialer
from workers.transport.resolver import Found, RefusedAddressError, Resolver
from workers.transport.routes import has_route
from workers.transport.transport import DeliveryTransport
from workers.transport.tunneler import Tunneler

HOST = "shop.test"
PUBLIC = "1.1.1.1"


class Names:
    """A name server that answers in turn, the last answer for ever, and counts."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    def __call__(self, host: str) -> Found:
        assert host.endswith(".test")
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        found: Found = asyncio.get_running_loop().create_future()
        if answer:
            found.set_result(tuple(ip_address(each) for each in answer))
        else:
            found.set_exception(OSError("no such name"))
        return found


@asynccontextmanager
async def a_resolver(
    names: Callable[[str], Found], policy: EgressPolicy | None = None, **limits: float
) -> AsyncIterator[Resolver]:
    resolver = Resolver(policy or EgressPolicy(), names, **limits)  # type: ignore[arg-type]  # of its own names
    try:
        yield resolver
    finally:
        resolver.close()


async def test_a_public_name_is_looked_up_once_for_many_requests() -> None:
    names = Names([PUBLIC, "2001:4860:4860::8888"])
    async with a_resolver(names) as resolver:
        found = await asyncio.gather(*(resolver.addresses(HOST, 443) for _ in range(50)))
        assert {len(each) for each in found} == {2}
        assert names.asked == 1


async def test_a_name_with_one_private_address_is_refused_and_told_once() -> None:
    async with a_resolver(Names([PUBLIC, "169.254.169.254"])) as resolver:
        with capture_logs() as logs:
            for _ in range(3):
                with pytest.raises(RefusedAddressError, match=r"169\.254\.169\.254 belongs to"):
                    await resolver.addresses(HOST, 443)
    assert [(entry["event"], entry["host"], entry["address"]) for entry in logs] == [
        ("egress_refused", HOST, "169.254.169.254")
    ]


async def test_a_refusal_that_goes_on_is_told_again_after_a_while() -> None:
    async with a_resolver(Names(["169.254.169.254"]), log_again_s=0) as resolver:
        with capture_logs() as logs:
            for _ in range(3):
                with pytest.raises(RefusedAddressError):
                    await resolver.addresses(HOST, 443)
    assert [entry["event"] for entry in logs] == ["egress_refused"] * 3


async def test_an_address_needs_no_name_server_in_any_spelling() -> None:
    names = Names([PUBLIC])
    async with a_resolver(names) as resolver:
        assert await resolver.addresses(PUBLIC, 443) == (ip_address(PUBLIC),)
        for spelled in ("127.1", "0x7f.1", "2130706433"):
            with pytest.raises(RefusedAddressError):
                await resolver.addresses(spelled, 443)
        assert names.asked == 0


async def test_a_name_that_is_not_known_is_asked_for_again_after_a_while() -> None:
    names = Names([], [PUBLIC])
    async with a_resolver(names, failure_kept_s=0) as resolver:
        with pytest.raises(OSError, match="no such name"):
            await resolver.addresses(HOST, 443)
        assert await resolver.addresses(HOST, 443)


class FailingNames(Names):
    """A name server that knows the host once, and then fails with an error."""

    def __init__(self, error: int) -> None:
        super().__init__([PUBLIC])
        self._error = error

    def __call__(self, host: str) -> Found:
        found = super().__call__(host)
        if self.asked > 1:
            found = asyncio.get_running_loop().create_future()
            found.set_exception(socket.gaierror(self._error, "failed"))
        return found


async def test_without_an_answer_the_last_known_addresses_are_used_and_this_is_told() -> None:
    names = FailingNames(socket.EAI_AGAIN)
    async with a_resolver(names, kept_s=0, failure_kept_s=0) as resolver:
        with capture_logs() as logs:
            for _ in range(4):
                assert await resolver.addresses(HOST, 443) == (ip_address(PUBLIC),)
    assert names.asked == 4
    assert [(entry["event"], entry["host"]) for entry in logs] == [
        ("last_known_addresses_used", HOST)
    ]


async def test_a_name_that_is_gone_is_not_sent_to() -> None:
    names = FailingNames(socket.EAI_NONAME)
    async with a_resolver(names, kept_s=0, failure_kept_s=0) as resolver:
        assert await resolver.addresses(HOST, 443)
        for _ in range(2):
            with pytest.raises(socket.gaierror):
                await resolver.addresses(HOST, 443)


async def test_addresses_that_were_known_too_long_ago_are_not_used() -> None:
    names = FailingNames(socket.EAI_AGAIN)
    async with a_resolver(names, kept_s=0, last_known_s=0) as resolver:
        assert await resolver.addresses(HOST, 443)
        with pytest.raises(socket.gaierror):
            await resolver.addresses(HOST, 443)


async def test_many_requests_for_an_unknown_name_ask_once() -> None:
    names = Names([])
    async with a_resolver(names) as resolver:
        for _ in range(3):
            with pytest.raises(OSError, match="no such name"):
                await resolver.addresses(HOST, 443)
    assert names.asked == 1


async def test_as_many_names_are_remembered_as_there_is_room_for() -> None:
    names = Names([PUBLIC])
    async with a_resolver(names, hosts_max=2) as resolver:
        for host in ("a.test", "b.test", "c.test", "b.test", "a.test"):
            await resolver.addresses(host, 443)
        assert names.asked == 4


async def test_who_waits_for_a_name_that_makes_room_for_others_is_told_so() -> None:
    loop = asyncio.get_running_loop()
    async with a_resolver(lambda _: loop.create_future(), hosts_max=1) as resolver:
        waiting = loop.create_task(resolver.addresses("a.test", 443))
        await asyncio.wait((waiting,), timeout=0.01)
        other = loop.create_task(resolver.addresses("b.test", 443))
        with pytest.raises(OSError, match="too many names"):
            await waiting
    with pytest.raises(OSError, match="too many names"):
        await other


async def test_a_name_server_that_hangs_holds_up_no_host_that_was_known() -> None:
    loop = asyncio.get_running_loop()
    first, hanging, last = (loop.create_future() for _ in range(3))
    answers: list[Found] = [first, hanging, last]
    first.set_result((ip_address(PUBLIC),))
    async with a_resolver(lambda _: answers.pop(0), kept_s=0) as resolver:
        for _ in range(3):
            assert await resolver.addresses(HOST, 443) == (ip_address(PUBLIC),)
        assert answers == [last]
        hanging.set_result((ip_address("8.8.8.8"),))
        assert await resolver.addresses(HOST, 443) == (ip_address("8.8.8.8"),)


async def test_one_that_gives_up_leaves_the_answer_to_the_others() -> None:
    found: Found = asyncio.get_running_loop().create_future()
    async with a_resolver(lambda _: found) as resolver, asyncio.TaskGroup() as tasks:
        hasty = tasks.create_task(resolver.addresses(HOST, 443))
        patient = tasks.create_task(resolver.addresses(HOST, 443))
        await asyncio.wait((hasty,), timeout=0.01)
        hasty.cancel()
        await asyncio.wait((hasty,))
        found.set_result((ip_address(PUBLIC),))
        assert await patient == (ip_address(PUBLIC),)


class Unowned:
    def release(self, connection: Connection) -> None: ...
    def discard(self, connection: Connection) -> None: ...


async def dialled(resolver: Resolver, port: int, address: Address | None = None) -> None:
    loop = asyncio.get_running_loop()
    connection = Connection(Unowned(), DeadlineTimer(loop))
    dialer, origin = Dialer(resolver), ConnectionOrigin("http", HOST, port, address=address)
    try:
        await dialer.dial(origin, connection, deadline=loop.time() + 5)
    finally:
        connection.abort()


async def test_a_name_that_changes_after_the_check_is_not_dialled_where_it_leads_then() -> None:
    """Rebinding: the second answer is private, and would be the one a second look-up got."""
    names = Names(["127.0.0.2"], ["127.0.0.1"])
    policy = EgressPolicy(allowed=(ip_network("127.0.0.2/32"),))
    async with Subscriber(host="127.0.0.2") as subscriber, a_resolver(names, policy) as resolver:
        await dialled(resolver, subscriber.port)
        await subscriber.wait_until(lambda: subscriber.connections == 0)
        assert names.asked == 1


async def test_the_next_address_is_dialled_when_one_refuses() -> None:
    names = Names(["127.0.0.3", "127.0.0.1"])
    async with Subscriber() as subscriber, a_resolver(names, LOOPBACK) as resolver:
        await dialled(resolver, subscriber.port)


async def test_all_addresses_of_a_name_are_told_and_one_of_them_can_be_dialled() -> None:
    names, loop = Names(["127.0.0.1", "127.0.0.2"]), asyncio.get_running_loop()
    async with (
        Subscriber() as first,
        Subscriber(host="127.0.0.2", port=first.port) as second,
        a_resolver(names, LOOPBACK) as resolver,
    ):
        origin = ConnectionOrigin("http", HOST, first.port)
        found = await Dialer(resolver).addresses(origin, deadline=loop.time() + 5)
        assert [str(each) for each in found] == ["127.0.0.1", "127.0.0.2"]
        await dialled(resolver, first.port, found[1])
        await second.wait_until(lambda: second.connections_total == 1)
        assert first.connections_total == 0
        with pytest.raises(RefusedAddressError):
            await dialled(resolver, first.port, ip_address("169.254.169.254"))


@pytest.mark.parametrize(
    ("stands_for", "routed", "told"),
    [
        (("127.0.0.1", "::1"), ("127.0.0.1",), ("127.0.0.1",)),
        (("127.0.0.1", "::1"), ("::1",), ("::1",)),
        (("127.0.0.1", "::1"), ("127.0.0.1", "::1"), ("127.0.0.1", "::1")),
        (("127.0.0.1", "::1"), (), ("127.0.0.1", "::1")),
        # Of its own kind one that cannot be reached is a failure, which is to be seen.
        (("127.0.0.1", "127.0.0.2"), ("127.0.0.1",), ("127.0.0.1", "127.0.0.2")),
    ],
)
async def test_addresses_of_a_kind_that_a_machine_cannot_reach_are_left_out(
    stands_for: Sequence[str], routed: Sequence[str], told: Sequence[str]
) -> None:
    loop = asyncio.get_running_loop()
    async with a_resolver(Names(stands_for), LOOPBACK) as resolver:
        dialer = Dialer(resolver, has_route=lambda address: str(address) in routed)
        found = await dialer.addresses(ConnectionOrigin("http", HOST, 80), deadline=loop.time() + 5)
    assert [str(each) for each in found] == list(told)


async def test_an_address_of_a_kind_that_a_machine_cannot_reach_is_a_proxys_to_reach() -> None:
    loop, proxy = asyncio.get_running_loop(), EgressProxy.of("http://127.0.0.1:1")
    async with a_resolver(Names([PUBLIC, "2606:4700:4700::1111"])) as resolver:
        dialer = Dialer(resolver, tunneler=Tunneler(proxy), has_route=lambda _: False)
        found = await dialer.addresses(ConnectionOrigin("http", HOST, 80), deadline=loop.time() + 5)
    assert len(found) == 2


def test_a_machine_has_a_route_to_itself_and_none_to_where_there_can_be_none() -> None:
    assert has_route(ip_address("127.0.0.1"))
    # A link-local address without the link it is local to.
    assert not has_route(ip_address("fe80::1"))


async def test_a_name_without_addresses_in_time_cannot_be_reached() -> None:
    loop = asyncio.get_running_loop()
    origin = ConnectionOrigin("http", HOST, 80)
    async with a_resolver(Names([])) as unknown:
        with pytest.raises(httpx.ConnectError, match="no such name"):
            await Dialer(unknown).addresses(origin, deadline=loop.time() + 5)
    async with a_resolver(lambda _: loop.create_future()) as hanging:
        with pytest.raises(httpx.ConnectTimeout, match=r"no connection to shop\.test:80"):
            await Dialer(hanging).addresses(origin, deadline=loop.time())


async def test_nothing_is_sent_to_a_private_address_by_default() -> None:
    async with Subscriber() as subscriber:
        transport = DeliveryTransport(egress=EgressPolicy())
        with pytest.raises(RefusedAddressError, match="belongs to this machine"):
            await transport.handle_async_request(httpx.Request("POST", subscriber.url))
        await transport.aclose()
        assert (subscriber.received, subscriber.connections) == ([], 0)
        assert transport.connections == 0

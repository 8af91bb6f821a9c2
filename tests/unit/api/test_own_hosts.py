"""Which hosts requests may name, by where the service listens and what is configured."""

import pytest

from app.domain.network.own_hosts import OwnHosts

EVERYWHERE = "0.0.0.0"  # noqa: S104 - nobody listens


def included(bound: str, *configured: str) -> OwnHosts:
    return OwnHosts(bound=bound, machine="box-1", configured=configured)


@pytest.mark.parametrize(
    ("bound", "hosts"),
    [
        ("127.0.0.1", "localhost LOCALHOST localhost. 127.0.0.1 127.9.9.9 [::1]"),
        ("localhost", "localhost 127.0.0.1 [::1]"),
        (EVERYWHERE, "localhost 127.0.0.1 box-1 BOX-1 192.168.1.7 [fe80::7]"),
        ("::", "localhost [::1] box-1 192.168.1.7"),
        ("192.168.1.7", "localhost 127.0.0.1 192.168.1.7 box-1"),
        ("box.lan", "localhost box.lan box-1"),
    ],
)
def test_this_machines_hosts_may_be_named(bound: str, hosts: str) -> None:
    assert [each for each in hosts.split() if not included(bound).include(each)] == []


@pytest.mark.parametrize(
    ("bound", "hosts"),
    [
        (
            "127.0.0.1",
            "evil.test box-1 192.168.1.7 10.0.0.1 localhost.evil.test xlocalhost 0.0.0.0",
        ),
        ("localhost", "evil.test box-1 192.168.1.7"),
        (EVERYWHERE, "evil.test box-1.evil.test box-2"),
        ("192.168.1.7", "evil.test 192.168.1.8"),
        ("127.0.0.1", ""),
    ],
)
def test_other_hosts_may_not(bound: str, hosts: str) -> None:
    assert not any(included(bound).include(each) for each in hosts.split() or [""])


def test_what_is_configured_may_be_named() -> None:
    ours = included("127.0.0.1", "api.example.com", "*.shop.test")
    named = ("API.example.com", "a.shop.test", "shop.test", "x.api.example.com")
    assert [ours.include(each) for each in named] == [True, True, False, False]
    assert included("127.0.0.1", "*").include("evil.test")

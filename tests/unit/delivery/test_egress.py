"""Which addresses may be dialled: the vectors of others' block lists, and spellings of them."""

from ipaddress import ip_address, ip_network

import pytest

from app.domain.network.egress import EgressPolicy, spelled_address

PUBLIC = EgressPolicy()
OFFICE = EgressPolicy(allowed=(ip_network("10.1.0.0/16"), ip_network("fd00:1::/32")))

REFUSED = (
    "10.254.0.0 192.168.10.65 172.16.10.65 0.1.2.3 0.0.0.0 127.0.0.1 127.254.254.254 169.254.45.1 "
    "169.254.169.254 255.255.255.255 224.1.2.3 233.252.0.16 192.0.0.0 192.0.0.255 192.0.2.255 "
    "198.51.100.65 203.0.113.6 100.100.0.0 192.88.99.3 198.18.0.0 240.240.240.240 :: ::1 "
    "::ffff:127.0.0.1 ::ffff:0.0.0.1 ::7f00:1 2001:db8::1 2001::1 3fff::dead:beef fe80::dead:beef "
    "168.63.129.16 100.100.100.200 192.0.0.192 161.26.0.10 166.9.0.1 fd20:ce::254 "
    "febf:ffff::dead:beef fdee:3a45:9057::1 fd7a:115c:a1e0::1 fd00:ec2::254 5f00::dead:beef "
    "2002:c000:204::dead:beef 2002:c0a8:1::dead:beef 64:ff9b::c0a8:0 64:ff9b::808:808 "
    "64:ff9b:1::dead:beef 100::1:2:3:4 ff02::1"
)


@pytest.mark.parametrize("address", REFUSED.split())
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    problem = PUBLIC.problem(ip_address(address), 443)
    assert problem is not None
    assert problem.startswith(f"{ip_address(address)} belongs to ")


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2001:4860:4860::8888", "::ffff:8.8.8.8"]
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert PUBLIC.problem(ip_address(address), 443) is None


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "fd00:1::1"])
def test_a_network_that_the_operator_allows_is_allowed_with_all_its_ports(address: str) -> None:
    assert OFFICE.problem(ip_address(address), 25) is None


@pytest.mark.parametrize("address", ["10.2.0.1", "fd00:2::1", "127.0.0.1"])
def test_allowing_a_network_allows_no_other(address: str) -> None:
    assert OFFICE.problem(ip_address(address), 443) is not None


@pytest.mark.parametrize(("port", "allowed"), [(80, True), (443, True), (8080, True), (25, False)])
def test_ports_of_other_services_are_refused(port: int, *, allowed: bool) -> None:
    problem = PUBLIC.problem(ip_address("1.1.1.1"), port)
    assert (problem is None) is allowed


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "0x7f.1", "0177.0.0.1", "2130706433", "127.0.0.1.", "[::1]", "::1"],
)
def test_odd_spellings_are_the_addresses_that_resolvers_take_them_for(host: str) -> None:
    assert str(spelled_address(host)) in {"127.0.0.1", "::1"}


@pytest.mark.parametrize(
    "host", ["localhost", "localhost.", "LOCALHOST", "a.localhost", "2130706433"]
)
def test_an_endpoint_on_this_machine_is_refused_by_its_name(host: str) -> None:
    problem = PUBLIC.endpoint_problem("http", host, None)
    assert problem == "127.0.0.1 belongs to this machine"


@pytest.mark.parametrize(
    ("scheme", "host", "port"),
    [("https", "shop.example", None), ("http", "1.1.1.1", 8080), ("http", "10.example", None)],
)
def test_an_endpoint_elsewhere_is_allowed(scheme: str, host: str, port: int | None) -> None:
    assert PUBLIC.endpoint_problem(scheme, host, port) is None


def test_an_endpoint_with_the_port_of_another_service_is_refused() -> None:
    problem = PUBLIC.endpoint_problem("http", "shop.example", 25)
    assert problem == "port 25 is not one for web requests"

from ipaddress import ip_address, ip_network

import pytest

from app.domain.network.egress_proxy import EgressProxy


def test_a_proxy_is_read_from_its_url() -> None:
    proxy = EgressProxy.of("http://joe:p%40ss@proxy.test:3128/")
    assert (proxy.host, proxy.port, proxy.user, proxy.password) == (
        "proxy.test",
        3128,
        "joe",
        "p@ss",
    )


def test_a_proxy_shows_no_password() -> None:
    assert "p@ss" not in repr(EgressProxy.of("http://joe:p%40ss@proxy.test:3128"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "proxy.test:3128",
        "https://joe:hush@proxy.test:3128",
        "socks5://joe:hush@proxy.test:3128",
        "http://joe:hush@proxy.test",
        "http://joe:hush@:3128",
        "http://joe:hush@proxy.test:many",
        "http://joe:hush@proxy.test:99999",
        "http://joe:hush@proxy.test:3128/path",
    ],
)
def test_what_is_no_proxy_is_refused_without_a_word_of_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="must be http://host:port") as caught:
        EgressProxy.of(url)
    assert "hush" not in str(caught.value)


def test_a_host_is_reached_directly_when_all_its_addresses_are() -> None:
    proxy = EgressProxy(host="p", port=1, direct=(ip_network("10.0.0.0/8"),))
    inside, outside = ip_address("10.1.2.3"), ip_address("1.1.1.1")
    assert not proxy.leads_to([inside])
    assert proxy.leads_to([outside])
    assert proxy.leads_to([inside, outside])
    assert proxy.beyond([inside, outside]) == [outside]


def test_no_spelling_of_a_direct_address_leads_to_the_proxys_own_machine() -> None:
    proxy = EgressProxy(host="p", port=1)
    for here in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        assert not proxy.leads_to([ip_address(here)])

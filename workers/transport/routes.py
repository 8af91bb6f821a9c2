"""Finds out whether this machine can reach IPv4 and IPv6 addresses."""

from collections.abc import Callable, Sequence
from itertools import islice
from socket import AF_INET, AF_INET6, SOCK_DGRAM, socket
from typing import Final

from app.domain.network.egress import Address

# The port for the test of a route. Any port will do, because the test sends nothing.
_PORT: Final = 9
# The number of IPv4 addresses, and of IPv6 addresses, that are tested. A name may have thousands of
# addresses.
_TESTED_MAX: Final = 4

HasRoute = Callable[[Address], bool]


def has_route(address: Address) -> bool:
    """Whether this machine has a route to the address. The test sends nothing and does not wait."""
    try:
        with socket(AF_INET6 if address.version == 6 else AF_INET, SOCK_DGRAM) as probe:  # noqa: PLR2004 - the version of IPv6
            probe.connect((str(address), _PORT))
    except OSError:
        return False
    return True


def of_reachable_kinds(addresses: Sequence[Address], has_route: HasRoute) -> Sequence[Address]:
    """Return `addresses` without the IPv4 or the IPv6 ones, if only the other kind has a route.

    For example, this machine may have no IPv6. If at least one tested address of a kind has a
    route, all addresses of this kind stay.
    """
    kinds = {each.version for each in addresses}
    if len(kinds) == 1:
        return addresses
    reachable = set()
    for kind in kinds:
        some = islice((each for each in addresses if each.version == kind), _TESTED_MAX)
        if any(has_route(each) for each in some):
            reachable.add(kind)
    return [each for each in addresses if each.version in reachable] or addresses

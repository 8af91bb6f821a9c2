"""Which kinds of addresses this machine can reach."""

from collections.abc import Callable, Sequence
from itertools import islice
from socket import AF_INET, AF_INET6, SOCK_DGRAM, socket
from typing import Final

from app.domain.network.egress import Address

# Any will do: nothing is sent there.
_PORT: Final = 9
# So many of a kind are a sample; a name may stand for thousands.
_ASKED_MAX: Final = 4

HasRoute = Callable[[Address], bool]


def has_route(address: Address) -> bool:
    """Whether this machine knows a way there; nothing is sent, and nothing is waited for."""
    try:
        with socket(AF_INET6 if address.version == 6 else AF_INET, SOCK_DGRAM) as probe:  # noqa: PLR2004 - IPv6
            probe.connect((str(address), _PORT))
    except OSError:
        return False
    return True


def of_reachable_kinds(addresses: Sequence[Address], has_route: HasRoute) -> Sequence[Address]:
    """Those of IPv4, IPv6 or both: without those of one that has no route, if the other has one.

    A machine without IPv6 is not to blame the host for having it; one address of several of a kind
    that has no route is another matter, and stays.
    """
    kinds = {each.version for each in addresses}
    if len(kinds) == 1:
        return addresses
    reachable = set()
    for kind in kinds:
        some = islice((each for each in addresses if each.version == kind), _ASKED_MAX)
        if any(has_route(each) for each in some):
            reachable.add(kind)
    return [each for each in addresses if each.version in reachable] or addresses

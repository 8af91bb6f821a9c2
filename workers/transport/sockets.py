"""Sockets to addresses, without name look-ups."""

from collections.abc import Sequence
from ipaddress import IPv6Address
from socket import AF_INET, AF_INET6, IPPROTO_TCP, SOCK_STREAM, socket
from typing import Final

from aiohappyeyeballs import AddrInfoType, start_connection

from app.domain.network.egress import Address

# RFC 8305: after this time without an answer, the next address is tried in parallel.
HAPPY_EYEBALLS_S: Final = 0.25


async def connected_to(addresses: Sequence[Address], port: int) -> socket:
    """Return a socket that is connected to one of `addresses`, the first ones preferred.

    Raises:
        OSError: No address can be reached.
    """
    infos = [_address_info(address, port) for address in addresses]
    try:
        return await start_connection(infos, happy_eyeballs_delay=HAPPY_EYEBALLS_S)
    except OSError as exc:
        # A frame in the traceback holds the exception. Without the traceback it is freed
        # immediately, not by the garbage collector: a subscriber that is down causes thousands of
        # them.
        raise exc.with_traceback(None)  # noqa: B904 - it is the same


def _address_info(address: Address, port: int) -> AddrInfoType:
    if isinstance(address, IPv6Address):
        return (AF_INET6, SOCK_STREAM, IPPROTO_TCP, "", (str(address), port, 0, 0))
    return (AF_INET, SOCK_STREAM, IPPROTO_TCP, "", (str(address), port))

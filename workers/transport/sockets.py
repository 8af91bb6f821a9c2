"""Sockets to addresses, and no names."""

from collections.abc import Sequence
from ipaddress import IPv6Address
from socket import AF_INET, AF_INET6, IPPROTO_TCP, SOCK_STREAM, socket
from typing import Final

from aiohappyeyeballs import AddrInfoType, start_connection

from app.domain.network.egress import Address

# RFC 8305: the next address is tried beside one that has not answered for so long.
HAPPY_EYEBALLS_S: Final = 0.25


async def connected_to(addresses: Sequence[Address], port: int) -> socket:
    """A socket that is connected to one of `addresses`, the first ones preferred; OSError."""
    infos = [_address_info(address, port) for address in addresses]
    try:
        return await start_connection(infos, happy_eyeballs_delay=HAPPY_EYEBALLS_S)
    except OSError as exc:
        # A frame in there holds it. Without its traceback it goes at once, and not when garbage is
        # looked for: a subscriber that is down makes thousands of them.
        raise exc.with_traceback(None)  # noqa: B904 - it is the same


def _address_info(address: Address, port: int) -> AddrInfoType:
    if isinstance(address, IPv6Address):
        return (AF_INET6, SOCK_STREAM, IPPROTO_TCP, "", (str(address), port, 0, 0))
    return (AF_INET, SOCK_STREAM, IPPROTO_TCP, "", (str(address), port))

"""Sockets to addresses, without name look-ups."""

from collections.abc import Sequence
from ipaddress import IPv6Address
from socket import AF_INET, AF_INET6, IPPROTO_TCP, SOCK_STREAM, socket
from typing import Final

from aiohappyeyeballs import AddrInfoType, start_connection

from app.domain.network.egress import Address

# If an address does not answer within this time, the next address is tried in parallel (RFC 8305).
HAPPY_EYEBALLS_S: Final = 0.25


async def connected_to(addresses: Sequence[Address], port: int) -> socket:
    """Return a socket that is connected to one of `addresses`; earlier ones are preferred.

    Raises:
        OSError: No address can be reached.
    """
    infos = [_address_info(address, port) for address in addresses]
    try:
        return await start_connection(infos, happy_eyeballs_delay=HAPPY_EYEBALLS_S)
    except OSError as exc:
        # Drop the traceback, because one of its frames refers to the exception. Without this cycle,
        # the exception is freed immediately, and not by the garbage collector. A subscriber that is
        # down causes thousands of exceptions.
        raise exc.with_traceback(None)  # noqa: B904 - the same error is raised again


def _address_info(address: Address, port: int) -> AddrInfoType:
    if isinstance(address, IPv6Address):
        return (AF_INET6, SOCK_STREAM, IPPROTO_TCP, "", (str(address), port, 0, 0))
    return (AF_INET, SOCK_STREAM, IPPROTO_TCP, "", (str(address), port))

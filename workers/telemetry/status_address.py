"""The address of a worker's status page, checked before the worker starts."""

import errno
import socket
import sys
from typing import NamedTuple

import structlog

from app.config import Settings
from app.domain.network.egress import PORT_MAX

_log = structlog.get_logger()


class Address(NamedTuple):
    """The address on which the page is served."""

    host: str
    port: int


def status_address(settings: Settings, *, number: int) -> Address | None:
    """Return the address for worker `number` of this machine; None if no page is configured."""
    if settings.worker_address is None:
        return None
    host, _, port = settings.worker_address.rpartition(":")
    # The workers of a machine show their status pages on consecutive ports.
    return Address(host.strip("[]"), int(port) and int(port) + number - 1)


def listening(address: Address) -> socket.socket:
    """Return a socket that listens at the address.

    Raises:
        OSError: The port is in use, or the host is not one of this machine.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server(address, family=family)


def require_status_address(settings: Settings, *, number: int) -> None:
    """If the address of the page cannot be used, log one line and exit with code 1."""
    address = status_address(settings, number=number)
    if address and (problem := _problem(address)):
        where = f"ANGELIA_WORKER_ADDRESS: worker {number} cannot listen on port {address.port}"
        _log.error("cannot_start", problem=f"{where} of {address.host}: {problem}")
        sys.exit(1)


def _problem(address: Address) -> str | None:
    if address.port > PORT_MAX:
        return f"ports end at {PORT_MAX}"
    try:
        listening(address).close()
    except OSError as exc:
        # Leave out what Python adds to the text of the system.
        used = exc.errno == errno.EADDRINUSE
        return "the port is in use" if used else str(exc.strerror).partition(" (while ")[0]
    return None

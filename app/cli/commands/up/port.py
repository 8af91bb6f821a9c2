"""The port of the API, checked before anything is started."""

import errno
import socket

from app.cli.errors import CliError


def free_port(host: str, port: int) -> int:
    """Return `port` if it is free at `host`. If `port` is 0, return any free port.

    Raises:
        CliError: The port is not free.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # SO_REUSEADDR is set, as servers do. A port on which only closed connections remain
            # then counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
            return int(probe.getsockname()[1])
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise CliError(
                f"Port {port} on {host} is in use.",
                hint=f"Choose another one: angelia up --port {port + 1}",
            ) from exc
        raise CliError(f"Cannot listen on {host}:{port}: {exc}") from exc

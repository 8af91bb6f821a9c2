"""The socket under a connection."""

import os
import socket
from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection


def sever(connection: AsyncConnection[Any]) -> None:
    """Shut the socket under `connection`: what waits for the server fails at once.

    Cancelling does not: psycopg then asks the server to cancel, and waits for it to answer.
    """
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)

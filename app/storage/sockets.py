"""Closes the socket under a connection to the database."""

import os
import socket
from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection


def sever(connection: AsyncConnection[Any]) -> None:
    """Close the socket under `connection`, so that calls that wait for the server fail immediately.

    To cancel the calls would not be enough: psycopg asks the server to cancel, and waits for a
    response.
    """
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)

"""Closes the socket that a connection to the database uses."""

import os
import socket
from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection


def sever(connection: AsyncConnection[Any]) -> None:
    """Close the socket of `connection`, so that calls that wait for the server fail immediately.

    To cancel the calls would not be enough, because psycopg would ask the server to cancel, and
    wait for a response.
    """
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)

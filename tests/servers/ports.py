"""Ports for processes that start later, or again: nobody else gets them meanwhile."""

import socket
from collections import deque
from typing import Final

# As many as one process of the tests has in use at a time, and many more.
_HELD_MAX: Final = 100
_held: deque[socket.socket] = deque()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nothing listens on, and that no socket of any process gets by chance.

    It is held by a socket that does not listen: Linux gives such a port to no one who asks for any,
    and to every server that asks for this one, as servers do, with SO_REUSEADDR.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((host, 0))
    _held.append(holder)
    if len(_held) > _HELD_MAX:
        _held.popleft().close()
    return int(holder.getsockname()[1])

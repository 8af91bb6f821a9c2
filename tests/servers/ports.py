"""Free ports for processes that start later or again.

No other program gets such a port meanwhile.
"""

import socket
from collections import deque
from typing import Final

# The maximum number of ports that are held: many more than one test process uses at a time.
_HELD_MAX: Final = 100
_held: deque[socket.socket] = deque()


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port on which nothing listens, and that no other process gets by chance.

    A socket that does not listen is bound to the port. Linux then gives the port to no process that
    asks for any free port. A server that asks for this port, with SO_REUSEADDR as servers do, gets
    it.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((host, 0))
    _held.append(holder)
    if len(_held) > _HELD_MAX:
        _held.popleft().close()
    return int(holder.getsockname()[1])

"""Limits the number of open connections of the API, and closes some for new ones."""

import resource
from contextlib import suppress
from typing import Final, Protocol

# The number of files that a process needs besides connections: for the log, the database, and
# itself.
_OTHER_FILES: Final = 200


class Closable(Protocol):
    """A connection, as `OpenConnections` uses it."""

    def make_room(self) -> None:
        """Close immediately: no request is in flight."""


class OpenConnections:
    """Keeps at most `connections_max` connections open, and prefers connections with a request.

    If there are too many, a new connection replaces the oldest connection that never had a request.
    If all had one, it replaces the connection that has been idle the longest. If all connections
    have a request now, the new connection is refused. So nobody can block publishers by opening
    many connections.
    """

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        # The dicts of unused and of idle connections are used as ordered sets. The first connection
        # in each dict has waited longest.
        self._unused: dict[Closable, None] = {}
        self._idle: dict[Closable, None] = {}
        self._at_work: set[Closable] = set()

    def __len__(self) -> int:
        return len(self._unused) + len(self._idle) + len(self._at_work)

    def opened(self, connection: Closable) -> bool:
        """Register a connection; return whether there is space for it."""
        if len(self) >= self._connections_max and not self._make_room():
            return False
        self._unused[connection] = None
        return True

    def began(self, connection: Closable) -> None:
        """Called when a request has started on a connection."""
        self._unused.pop(connection, None)
        self._idle.pop(connection, None)
        self._at_work.add(connection)

    def ended(self, connection: Closable) -> None:
        """Called when all requests of a connection are answered."""
        if connection in self._at_work:
            self._at_work.discard(connection)
            self._idle[connection] = None

    def closed(self, connection: Closable) -> None:
        """Called when a connection is closed. It may be called more than once for a connection."""
        self._unused.pop(connection, None)
        self._idle.pop(connection, None)
        self._at_work.discard(connection)

    def _make_room(self) -> bool:
        longest = next(iter(self._unused or self._idle), None)
        if longest is None:
            return False
        self.closed(longest)
        longest.make_room()
        return True


def connections_allowed(wanted: int) -> int:
    """Return `wanted`, or less if the system allows fewer open files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems accept no infinite limit: leave it as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - _OTHER_FILES))

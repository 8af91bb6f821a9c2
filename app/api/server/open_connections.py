"""How many connections of the API are open, and which are closed for new ones."""

import resource
from contextlib import suppress
from typing import Final, Protocol

# Files that a process needs beside connections: the log's, the database's, its own.
_OTHER_FILES: Final = 200


class Closable(Protocol):
    """A connection, as `OpenConnections` knows it."""

    def make_room(self) -> None:
        """Close at once: no request is under way."""


class OpenConnections:
    """Keeps at most `connections_max` open, and those at work before all others.

    For a new one goes the oldest of those that have never asked anything, else the one that has
    waited longest for its next request. Where all are at work the new one is refused. So nobody
    takes the connections of running publishers by opening many.
    """

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        # As ordered sets: the first has waited longest.
        self._unused: dict[Closable, None] = {}
        self._idle: dict[Closable, None] = {}
        self._at_work: set[Closable] = set()

    def __len__(self) -> int:
        return len(self._unused) + len(self._idle) + len(self._at_work)

    def opened(self, connection: Closable) -> bool:
        """Whether there is room for it."""
        if len(self) >= self._connections_max and not self._make_room():
            return False
        self._unused[connection] = None
        return True

    def began(self, connection: Closable) -> None:
        """A request has come on it."""
        self._unused.pop(connection, None)
        self._idle.pop(connection, None)
        self._at_work.add(connection)

    def ended(self, connection: Closable) -> None:
        """All its requests are answered."""
        if connection in self._at_work:
            self._at_work.discard(connection)
            self._idle[connection] = None

    def closed(self, connection: Closable) -> None:
        """It is gone; may be said more than once."""
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
    """As many as are wanted, if the system lets the process open as many files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems take no infinite one
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - _OTHER_FILES))

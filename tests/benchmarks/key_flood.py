"""Requests with wrong keys at a given pace, by a process of plain sockets.

`python -m tests.benchmarks.key_flood …` prints how many a second it sent, and how many of them were
refused. On `kept` connections a few are kept full of requests; with `new` ones each request has a
connection of its own, as from many callers behind one address.
"""

import argparse
import asyncio
import selectors
import socket
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from tests.benchmarks.cores import OTHERS, on_cores

REFUSED: Final = b"HTTP/1.1 401 "
KEPT_LINES: Final = 8
# A kept line is sent no more while so many of its requests are not answered.
_AHEAD_MAX: Final = 1_250
# So many new connections are open at a time at most; the pace suffers for it.
OPEN_MAX: Final = 4_000
_TURN_S: Final = 0.002
_PUBLISH: Final = (
    b"POST /topics/shop.orders HTTP/1.1\r\nHost: api\r\nContent-Length: 1\r\n"
    b"Authorization: Bearer ang_%012x_" + b"x" * 43 + b"\r\n\r\n1"
)
_MANAGE: Final = (
    b"GET /topics/shop.orders HTTP/1.1\r\nHost: api\r\n"
    b"Authorization: Bearer ang_%012x_" + b"x" * 43 + b"\r\n\r\n"
)


class Lines(StrEnum):
    """What the requests come by."""

    KEPT = "kept"
    NEW = "new"


class Route(StrEnum):
    """What they ask for."""

    PUBLISH = "publish"
    MANAGE = "manage"


_REQUESTS: Final = {Route.PUBLISH: _PUBLISH, Route.MANAGE: _MANAGE}


class Flooded(NamedTuple):
    """Wrong keys a second: sent, and refused."""

    sent: float
    refused: float


class Flood(NamedTuple):
    """What is sent, and for how long."""

    port: int
    lines: Lines
    route: Route
    rate: float
    seconds: float

    async def run(self) -> Flooded:
        """Send them from another process, on the cores that are not measured."""
        with on_cores(OTHERS):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", __name__, *map(str, self)), stdout=asyncio.subprocess.PIPE
            )
        said, _ = await process.communicate()
        sent, refused = said.split()
        return Flooded(float(sent), float(refused))


class _Sockets:
    """Connections to the server, and what came back by them."""

    def __init__(self, flood: Flood) -> None:
        self.sent = self.refused = 0
        self._request = _REQUESTS[flood.route]
        self._address = ("127.0.0.1", flood.port)
        self._selector = selectors.DefaultSelector()
        self._open = 0

    def opened(self) -> socket.socket:
        """One more."""
        made = socket.create_connection(self._address)
        made.settimeout(0)
        self._selector.register(made, selectors.EVENT_READ)
        self._open += 1
        return made

    @property
    def full(self) -> bool:
        """Whether there are as many as may be."""
        return self._open >= OPEN_MAX

    def send(self, line: socket.socket, count: int) -> None:
        """So many requests, each with another key; what does not fit is not sent."""
        keys = range(self.sent, self.sent + count)
        try:
            line.send(b"".join(self._request % key for key in keys))
        except OSError:
            return
        self.sent += count

    def heard(self, *, within_s: float) -> Iterator[socket.socket]:
        """Those that were answered within that time."""
        for key, _ in self._selector.select(within_s):
            line = key.fileobj
            assert isinstance(line, socket.socket)
            try:
                data = line.recv(65_536)
            except OSError:
                data = b""
            self.refused += data.count(REFUSED)
            if data:
                yield line
            else:
                self.close(line)

    def close(self, line: socket.socket) -> None:
        """It is done with."""
        self._selector.unregister(line)
        line.close()
        self._open -= 1


def _by_kept(flood: Flood) -> _Sockets:
    sockets = _Sockets(flood)
    lines = [sockets.opened() for _ in range(KEPT_LINES)]
    began = time.monotonic()
    while (now := time.monotonic() - began) < flood.seconds:
        due = int(now * flood.rate) - sockets.sent
        room = KEPT_LINES * _AHEAD_MAX - (sockets.sent - sockets.refused)
        each = min(due, room) // KEPT_LINES
        for line in lines:
            if each > 0:
                sockets.send(line, each)
        for _ in sockets.heard(within_s=_TURN_S):
            continue
    return sockets


def _by_new(flood: Flood) -> _Sockets:
    sockets = _Sockets(flood)
    began = time.monotonic()
    while (now := time.monotonic() - began) < flood.seconds:
        due = int(now * flood.rate) - sockets.sent
        for _ in range(min(due, 50)):
            if sockets.full:
                break
            sockets.send(sockets.opened(), 1)
        for line in sockets.heard(within_s=0 if due > 0 else _TURN_S):
            sockets.close(line)
    return sockets


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("lines", type=Lines)
    parser.add_argument("route", type=Route)
    parser.add_argument("rate", type=float)
    parser.add_argument("seconds", type=float)
    flood = Flood(**vars(parser.parse_args()))
    sockets = _by_kept(flood) if flood.lines is Lines.KEPT else _by_new(flood)
    sys.stdout.write(f"{sockets.sent / flood.seconds} {sockets.refused / flood.seconds}\n")


if __name__ == "__main__":
    _main()

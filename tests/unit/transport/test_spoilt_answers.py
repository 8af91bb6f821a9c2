"""Whatever a subscriber says, in whatever pieces: an answer or an httpx exception, and no leak."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import spoiling
from tests.fakes.answer_reading import GOOD_ANSWERS, difference
from tests.fakes.sockets import Unread
from workers.transport.answer import RawAnswer
from workers.transport.deadline_timer import DeadlineTimer
from workers.transport.dialer import ConnectionOrigin, Dialer
from workers.transport.late_start import MayStart
from workers.transport.limits import TransportLimits
from workers.transport.pool import OriginPool

REQUEST: Final = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
OK: Final = b"HTTP/1.1 200 OK\r\nX-Own: 1\r\nContent-Length: 2\r\n\r\nok"
GOOD: Final = (
    OK,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nTrailer: t\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
    b"HTTP/1.1 503 No\r\nRetry-After: 7\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody",
    b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
    OK + OK,
)


class Socket(Unread):
    """What has been written has left."""

    def get_write_buffer_size(self) -> int:
        return 0


class Sockets(Dialer):
    """Connects at once, to the test."""

    def __init__(self) -> None:
        self.dialled = 0
        self.socket: Unread = Socket()
        self.connection = asyncio.Protocol()

    async def dial(
        self, origin: ConnectionOrigin, connection: asyncio.Protocol, *, deadline: float
    ) -> None:
        del origin, deadline
        self.dialled += 1
        self.connection = connection
        connection.connection_made(self.socket)

    async def learn(self, origin: ConnectionOrigin, tls: object) -> None: ...


class Line:
    """A pool of one connection, whose other side is played here."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.deadline_timer = DeadlineTimer(self.loop)
        self.sockets = Sockets()
        self.pool = OriginPool(
            ConnectionOrigin("http", "h", 80),
            dialer=self.sockets,
            deadline_timer=self.deadline_timer,
            limits=TransportLimits(connections_max=1),
            on_empty=lambda _: None,
        )

    async def post(self, may_start: MayStart | None = None) -> "asyncio.Task[RawAnswer]":
        """A request that has been written, if it had not to wait and might start."""
        sent = asyncio.ensure_future(self.pool.send(REQUEST, self.loop.time() + 1000, may_start))
        await self.turns()
        return sent

    async def turns(self) -> None:
        """Let the loop do what is to be done."""
        for _ in range(6):
            await asyncio.sleep(0)

    def say(self, data: bytes, cuts: Sequence[int]) -> None:
        places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        for start, end in pairwise(places):
            if not self.sockets.socket.closed:
                self.sockets.connection.data_received(data[start:end])

    def end(self, exc: Exception | None) -> None:
        """The other side is gone."""
        if exc is None and not self.sockets.socket.closed:
            self.sockets.connection.eof_received()
        self.sockets.connection.connection_lost(exc)


ENDS: Final = (None, ConnectionResetError("reset"))


async def outcome_of(said: bytes, cuts: Sequence[int], ending: Exception | None) -> object:
    """What comes of a request to which that is said; nothing may be left of it."""
    line = Line()
    sent = await line.post()
    line.say(said, cuts)
    await line.turns()
    if line.pool.idle:
        # It may carry another request, whose answer is its own.
        again = await line.post()
        assert line.sockets.dialled == 1
        line.say(OK, ())
        await line.turns()
        assert (await again).headers[0] == (b"X-Own", b"1")
    line.end(ending)
    await line.turns()
    assert sent.done(), "a hang"
    assert (len(line.pool), line.pool.idle, line.pool.waiting, len(line.deadline_timer)) == (
        0,
        0,
        0,
        0,
    )
    return sent.exception() or sent.result()


@pytest.mark.parametrize("said", GOOD)
async def test_good_answers_are_taken_however_they_are_cut(said: bytes) -> None:
    for cut in range(len(said)):
        answer = await outcome_of(said, [cut], None)
        assert isinstance(answer, RawAnswer)
        assert answer.status in {200, 204, 503}


@given(
    said=st.binary(max_size=300),
    cuts=st.lists(st.integers(0, 300), max_size=5),
    ending=st.sampled_from(ENDS),
)
async def test_any_bytes_come_to_an_end(
    said: bytes, cuts: list[int], ending: Exception | None
) -> None:
    assert isinstance(await outcome_of(said, cuts, ending), RawAnswer | httpx.TransportError)


PIECES: Final = (b"\r\n", b"\r\n\r\n", b"\x00", b"0\r\n\r\n", b"Content-Length: 3\r\n", b" ", b"\n")
Spoiling = tuple[str, int, int]


@given(
    good=st.sampled_from(GOOD),
    spoilings=st.lists(
        st.tuples(
            st.sampled_from(["set", "drop", "insert", "repeat", "end"]),
            st.integers(0, 400),
            st.integers(0, 255),
        ),
        max_size=5,
    ),
    cuts=st.lists(st.integers(0, 400), max_size=5),
    ending=st.sampled_from(ENDS),
)
async def test_a_good_answer_that_is_spoilt_anywhere_comes_to_an_end(
    good: bytes, spoilings: list[Spoiling], cuts: list[int], ending: Exception | None
) -> None:
    said = good
    for each in spoilings:
        said = spoilt(said, each)
    assert isinstance(await outcome_of(said, cuts, ending), RawAnswer | httpx.TransportError)


def spoilt(said: bytes, spoiling: Spoiling) -> bytes:
    how, place, value = spoiling
    at = place % (len(said) + 1)
    match how:
        case "set":
            return said[:at] + bytes((value,)) + said[at + 1 :]
        case "drop":
            return said[:at] + said[at + 1 + value % 8 :]
        case "insert":
            return said[:at] + PIECES[value % len(PIECES)] + said[at:]
        case "repeat":
            return said[:at] + said[at : at + value] * 2 + said[at + value :]
        case _:
            return said[:at]


@given(good=st.sampled_from(GOOD), until=st.integers(0, 200))
async def test_one_that_is_given_up_within_the_answer_leaves_nothing(
    good: bytes, until: int
) -> None:
    line = Line()
    sent = await line.post()
    line.say(good[:until], ())
    sent.cancel()
    await line.turns()
    assert sent.done()
    line.end(None)
    assert (len(line.pool), len(line.deadline_timer)) == (0, 0)


@given(
    good=st.sampled_from(GOOD_ANSWERS),
    spoilings=st.lists(
        st.builds(spoiling.Spoiling, st.integers(0, 5), st.integers(0, 400), st.integers(0, 255)),
        max_size=4,
    ),
    cuts=st.lists(st.integers(0, 400), max_size=4),
)
def test_a_spoilt_answer_is_read_as_h11_reads_it_or_refused(
    good: bytes, spoilings: list[spoiling.Spoiling], cuts: list[int]
) -> None:
    assert difference(spoiling.spoilt(good, spoilings), cuts) is None

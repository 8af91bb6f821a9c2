"""A request that had to wait for its connection is asked again whether it may be sent."""

import asyncio

import pytest

from tests.unit.transport.test_spoilt_answers import OK, REQUEST, Line
from workers.transport.late_start import MAY_START, LateStartError


class Permit:
    """Says whether a request may start, and counts how often it was asked."""

    def __init__(self, *, allows: bool) -> None:
        self.allows = allows
        self.asked = 0
        MAY_START.set(self)

    def __call__(self) -> bool:
        self.asked += 1
        return self.allows


async def test_a_request_that_may_not_start_any_more_is_not_written_and_leaves_its_connection() -> (
    None
):
    line, permit = Line(), Permit(allows=False)
    late = await line.post()
    with pytest.raises(LateStartError):
        await late
    assert line.sockets.socket.written == b""
    assert line.pool.idle == 1
    permit.allows = True
    again = await line.post()
    assert line.sockets.socket.written == REQUEST
    line.say(OK, ())
    await line.turns()
    assert (await again).status == 200
    assert line.sockets.dialled == 1


async def test_a_request_on_an_open_connection_is_not_asked() -> None:
    line, permit = Line(), Permit(allows=True)
    first = await line.post()
    line.say(OK, ())
    await first
    assert permit.asked == 1
    second = await line.post()
    line.say(OK, ())
    await second
    assert permit.asked == 1


async def test_a_connection_that_becomes_free_goes_to_the_first_request_that_may_start() -> None:
    line, permit = Line(), Permit(allows=True)
    first = await line.post()
    late = await line.post()
    allowed = Permit(allows=True)
    next_one = await line.post()
    permit.allows = False
    line.say(OK, ())
    await line.turns()
    assert (await first).status == 200
    with pytest.raises(LateStartError):
        await late
    assert allowed.asked == 1
    line.say(OK, ())
    await line.turns()
    assert (await next_one).status == 200


async def test_an_idle_connection_that_was_never_used_ends_after_its_idle_time() -> None:
    line = Line()
    Permit(allows=False)
    late = await line.post()
    with pytest.raises(LateStartError):
        await late
    assert len(line.deadline_timer) == 1
    line.end(None)
    await asyncio.sleep(0)
    assert (len(line.pool), len(line.deadline_timer)) == (0, 0)

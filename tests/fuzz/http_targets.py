"""HTTP from outside: requests of publishers, answers of subscribers, and HTTP/2."""

from typing import Final

import httpx

from tests.fakes import answer_reading, request_reading
from tests.fakes.http2_client import Client, conversation
from tests.fuzz.target import Target, cuts_and_rest, in_parts, run
from workers.transport.answer import RawAnswer

# In one piece.
_UNCUT: Final = b"\x00\x00"


def check_request(data: bytes) -> None:
    """A request is read as h11 reads it, or refused."""
    cuts, said = cuts_and_rest(data)

    async def compare() -> None:
        assert (found := await request_reading.difference(said, cuts)) is None, found

    run(compare())


def check_answer(data: bytes) -> None:
    """An answer is read as h11 reads it, or refused."""
    cuts, said = cuts_and_rest(data)
    assert (found := answer_reading.difference(said, cuts)) is None, found


def check_http2(data: bytes) -> None:
    """Whatever the other side says, each request has one end, and nothing is left of it."""

    async def converse() -> None:
        client = Client(requests=2)
        for part in in_parts(data):
            client.feed(part)
        for end in client.end():
            assert isinstance(end, RawAnswer | httpx.TransportError), end

    run(converse())


def _conversations() -> list[bytes]:
    said: list[bytes] = []

    async def converse() -> None:
        said.extend(conversation(go_away=each) for each in (False, True))

    run(converse())
    return said


REQUESTS: Final = Target(check_request, [_UNCUT + each for each in request_reading.GOOD_REQUESTS])
ANSWERS: Final = Target(check_answer, [_UNCUT + each for each in answer_reading.GOOD_ANSWERS])
HTTP2: Final = Target(check_http2, [_UNCUT + each for each in _conversations()])

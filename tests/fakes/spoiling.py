"""Makes damaged HTTP messages, as faulty networks or attackers would."""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

# Texts about which parsers of HTTP have disagreed.
_PIECES: Final = (
    *(b"\r\n", b"\r\n\r\n", b"\n", b"\r", b" ", b"\t", b"\x00", b"\x0b", b"\x7f", b"\xff", b":"),
    *(b",", b";", b'"', b"\\", b"0", b"+1", b"-1", b"0x2", b"1_0", b"00000000000000000003"),
    *(b"ffffffffffffffffff", b"Content-Length: 3\r\n", b"Content-Length: 4, 4\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"chunked, "),
    *(b"Transfer-Encoding:\tchunked\r\n", b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
    *(b"Content-Length : 3\r\n", b"Content-Length:\r\n", b" folded: 1\r\n", b"4;a=b\r\n"),
    *(b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Connection: Upgrade\r\n"),
    *(b"Upgrade: h2c\r\n", b"Expect: 100-continue\r\n", b"Host: i\r\n", b"Trailer: t\r\n"),
    *(b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.2", b"HTTP/0.9", b"RTSP/1.0", b"ICE/1.0", b"http/1.1"),
    *(b"GET", b"HEAD", b"CONNECT", b"OPTIONS *", b"SOURCE", b"204", b"304", b"100", b"101", b"999"),
)


class Spoiling(NamedTuple):
    """One change of a message: its kind (`how`, as an index), its place, and a value for it."""

    how: int
    place: int
    value: int


def spoilt(said: bytes, spoilings: Sequence[Spoiling]) -> bytes:
    """Return the message after these changes, one after the other."""
    for how, place, value in spoilings:
        at = place % (len(said) + 1)
        match how % 6:
            case 0:
                said = said[:at] + bytes((value % 256,)) + said[at + 1 :]
            case 1:
                said = said[:at] + said[at + 1 + value % 8 :]
            case 2:
                said = said[:at] + said[at : at + value % 64] + said[at:]
            case 3:
                said = (
                    said[:at] + _PIECES[value % len(_PIECES)] + said[at + place % 2 * value % 9 :]
                )
            case 4:
                said = _line_before(said, at, _PIECES[value % len(_PIECES)])
            case _:
                said = said[:at] + _PIECES[value % len(_PIECES)] + said[at:]
    return said


def _line_before(said: bytes, at: int, piece: bytes) -> bytes:
    """Return the message with `piece` inserted at the start of the line that contains `at`."""
    start = said.rfind(b"\r\n", 0, at) + 2
    return said[:start] + piece + said[start:] if start > 1 else said


def random_spoilings(random: Random) -> list[Spoiling]:
    """Return up to five random changes; mostly one or two."""
    count = min(5, 1 + int(random.expovariate(1.0)))
    return [
        Spoiling(random.randrange(6), random.randrange(400), random.randrange(256))
        for _ in range(count)
    ]

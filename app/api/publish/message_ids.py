"""Message ids: random UUIDs (RFC 9562, version 4), created many at a time."""

import os
from typing import Final

_AT_A_TIME: Final = 128
_DIGITS: Final = 32
_VARIANTS: Final = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


class MessageIds:
    """A source of message ids.

    It reads random bytes for many ids at a time. Reading the bytes for each id separately would
    take longer than everything else that makes an id.
    """

    def __init__(self) -> None:
        self._made: list[bytes] = []

    def new(self) -> bytes:
        """Return a new unique id as text."""
        if not self._made:
            self._made = _made(os.urandom(_AT_A_TIME * _DIGITS // 2).hex())
        return self._made.pop()


def _made(digits: str) -> list[bytes]:
    return [
        _id(digits[start : start + _DIGITS]) for start in range(0, _AT_A_TIME * _DIGITS, _DIGITS)
    ]


def _id(drawn: str) -> bytes:
    variant = _VARIANTS[drawn[16]]
    return (
        f"{drawn[:8]}-{drawn[8:12]}-4{drawn[13:16]}-{variant}{drawn[17:20]}-{drawn[20:]}"
    ).encode()

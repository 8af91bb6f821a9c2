"""Reads JSON from front to back, in parts of limited size. Other tasks run in between.

The part that is decoded at a time is called the window.
"""

import asyncio
from collections.abc import Iterator
from json import JSONDecodeError
from typing import Final

from app.domain.json_text import skip_space, value_end
from app.schemas.json_pieces import PIECE_BYTES, JsonPart, value_parts, without_escapes

# The values of bytes in UTF-8 that are not the first byte of a character.
_CONTINUING: Final = range(0x80, 0xC0)
# The size of a window, in pieces of PIECE_BYTES. If a value is smaller than a window, its end is
# found in one step.
_PIECES: Final = 2


class JsonTextError(ValueError):
    """The text is not JSON; the error says what is wrong, and where."""


class JsonCursor:
    """A position in a JSON text, which moves over white space, single characters and whole values.

    Python's decoder finds where a value ends. Values are returned as they are in the text.
    """

    def __init__(self, body: bytes, *, piece_bytes: int = PIECE_BYTES) -> None:
        self._body = body
        self._piece_bytes = piece_bytes
        self._window_bytes = _PIECES * piece_bytes
        # The text of the window, and the current position in the window.
        self._text = ""
        self._at = 0
        # The current position in the whole text, and the position where the window ends in the
        # whole text.
        self._position = 0
        self._stop = 0

    async def next(self) -> str:
        """Skip white space, and return the character that follows; empty at the end of the text.

        Raises:
            JsonTextError: The text is not UTF-8.
        """
        while True:
            self._move(skip_space(self._text, self._at))
            if self._at < len(self._text) or self._stop == len(self._body):
                return self._text[self._at : self._at + 1]
            await self._load()

    async def passes(self, character: str) -> bool:
        """Skip white space and then `character`. Return False if another character follows.

        Raises:
            JsonTextError: The text is not UTF-8.
        """
        if await self.next() != character:
            return False
        self._move(self._at + 1)
        return True

    async def value(self) -> bytes:
        """Skip white space, and return the value after it. Then the position is after the value.

        Raises:
            JsonTextError: No JSON value begins here.
        """
        kind = await self.next()
        start = self._position
        end = self._value_end()
        if end is None and self._at:
            await self._load()
            end = self._value_end()
        if end is not None:
            self._move(end)
        else:
            self._go(await (self._end_of_text() if kind == '"' else self._end_of_container()))
        return self._body[start : self._position]

    def wrong(self, problem: str, position: int | None = None) -> JsonTextError:
        """Return an error about the current position, or about `position` if it is given."""
        before = self._body[: self._position if position is None else position]
        return JsonTextError(f"{problem}: char {len(before.decode(errors='replace'))}")

    def _value_end(self) -> int | None:
        """Return where the value ends in the window; None if it may end after the window."""
        is_all = self._stop == len(self._body)
        try:
            end = value_end(self._text, self._at)
        except ValueError as exc:
            if is_all:
                raise self._no_value(exc, self._text[self._at :], self._at) from exc
            return None
        return end if is_all or end < len(self._text) else None

    async def _end_of_text(self) -> int:
        """Return the position after the quoted text at the current position.

        The text is larger than what is read at once.
        """
        at = self._position + 1
        while at < len(self._body):
            window = without_escapes(self._body, at, self._window_bytes)
            if (end := window.find(b'"')) >= 0:
                return at + end + 1
            at += len(window)
            await asyncio.sleep(0)
        raise self.wrong("a text that does not end")

    async def _end_of_container(self) -> int:
        """Return the position after the list or object at the current position.

        The list or object is larger than what is read at once.
        """
        end = self._position
        for part in self._parts():
            await asyncio.sleep(0)
            text = part.opening + self._body[part.start : part.stop] + (part.closing or b"")
            length = self._value_length(text, part)
            end = part.start + length - len(part.opening)
            if part.closing is not None and length < len(text):
                raise self.wrong("unexpected character", end)
        return end

    def _value_length(self, text: bytes, part: JsonPart) -> int:
        """Return the length in bytes of the JSON value with which `text` begins.

        `text` is the part of the whole JSON that `part` describes. Brackets are added where lists
        or objects are cut, so that `text` is JSON itself.
        """
        try:
            decoded = text.decode()
        except UnicodeDecodeError as exc:
            raise self.wrong("not UTF-8", part.start) from exc
        added = len(part.opening)
        try:
            end = value_end(decoded, 0)
        except ValueError as exc:
            raise self._no_value(exc, decoded[added:], added, start=part.start) from exc
        return len(decoded[:end].encode())

    def _no_value(
        self, error: ValueError, text: str, added: int, *, start: int | None = None
    ) -> JsonTextError:
        """Return an error of the decoder with its position in the whole JSON.

        `text` begins at the position `start` of the whole JSON. The decoder also got `added`
        characters before `text`.
        """
        problem, at = str(error), 0
        if isinstance(error, JSONDecodeError):
            problem, at = error.msg, max(0, error.pos - added)
        start = self._position if start is None else start
        return self.wrong(problem, start + len(text[:at].encode()))

    def _parts(self) -> Iterator[JsonPart]:
        return value_parts(self._body, self._position, self._piece_bytes)

    def _move(self, at: int) -> None:
        """Move to the position `at`, which is counted from the start of the window."""
        passed = self._text[self._at : at]
        self._position += len(passed) if passed.isascii() else len(passed.encode())
        self._at = at

    def _go(self, position: int) -> None:
        """Move to a position after the window, which is then empty."""
        self._text, self._at = "", 0
        self._position = self._stop = position

    async def _load(self) -> None:
        """Decode another window, which begins at the current position."""
        await asyncio.sleep(0)
        stop = min(self._position + self._window_bytes, len(self._body))
        # The window must not end inside of a character. A character may have up to three more
        # bytes.
        for _ in range(3):
            if stop < len(self._body) and self._body[stop] in _CONTINUING:
                stop -= 1
        try:
            self._text = self._body[self._position : stop].decode()
        except UnicodeDecodeError as exc:
            raise self.wrong("not UTF-8") from exc
        self._at, self._stop = 0, stop

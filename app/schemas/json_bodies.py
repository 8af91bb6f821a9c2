"""JSON in the form that topics accept. All readers support this form (I-JSON, RFC 7493)."""

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any, Final

import orjson

from app.domain.errors import FieldProblem, MessageInvalidError
from app.json_reading import read_json
from app.schemas.json_pieces import PIECE_BYTES, BodyPiece, pieces

# The maximum number of levels of a JSON body. orjson has the same maximum.
LEVELS_MAX: Final = 1_024
# The maximum size in bytes of a body that is checked as a whole.
WHOLE_BYTES_MAX: Final = 2 * PIECE_BYTES

_EMPTY: Final = 'is empty, which is not JSON: null, {} and "" are'
# The errors of orjson for JSON that other parsers may accept, each with the text that Angelia
# shows.
_BEYOND: Final = (
    ("depth limit exceeded", f"is nested deeper than {LEVELS_MAX} levels"),
    ("number is infinity", "has a number beyond the range of a double"),
    ("no low surrogate", "has half of a surrogate pair (\\ud800 to \\udfff) in a text"),
    ("invalid low surrogate", "has half of a surrogate pair (\\ud800 to \\udfff) in a text"),
    ("invalid high surrogate", "has half of a surrogate pair (\\ud800 to \\udfff) in a text"),
    ("UTF-8 byte order mark", "must not begin with a byte order mark"),
    ("str is not valid UTF-8", "is not JSON: it is not UTF-8"),
)


def json_body(body: bytes) -> Any:  # noqa: ANN401 - JSON can have any type
    """Parse a message's body as JSON, and return the value.

    Raises:
        MessageInvalidError: The body is not accepted; the error has the reason.
    """
    try:
        return read_json(body)
    except orjson.JSONDecodeError as exc:
        raise _refusal(body, exc) from exc


async def check_json_body(body: bytes) -> None:
    """Check a body as `json_body` does. During the check of a large body, other tasks run.

    Raises:
        MessageInvalidError: The body is not accepted; the error has the reason.
    """
    if len(body) <= WHOLE_BYTES_MAX:
        json_body(body)
        return
    async for _ in _piece_values(body):
        pass


async def root_members(body: bytes, names: Collection[str]) -> dict[str, Any] | None:
    """Check a body as `check_json_body` does, and return some members of its JSON object.

    `names` are the names of these members. A large body is read in pieces. So if a member is a list
    or an object, a part of its value may be missing. None means that the body is not an object.

    Raises:
        MessageInvalidError: The body is not accepted; the error has the reason.
    """
    found: dict[str, Any] = {}
    is_object = False
    async for value in _piece_values(body):
        # If the body is an object, all its pieces are objects. Otherwise no piece is an object.
        if is_object := isinstance(value, dict):
            found |= {name: value[name] for name in names if name in value}
    return found if is_object else None


async def _piece_values(body: bytes) -> AsyncIterator[Any]:
    """Yield the value of each piece of a large body. For a small body, yield only its own value.

    Raises:
        MessageInvalidError: A piece, and so the body, is not JSON.
    """
    if len(body) <= WHOLE_BYTES_MAX:
        yield json_body(body)
        return
    for piece in pieces(body):
        if len(piece.text) > WHOLE_BYTES_MAX:
            # Let other tasks run. The search for the end of a large text has taken a whole turn of
            # the event loop.
            await asyncio.sleep(0)
        try:
            value = read_json(piece.text)
        except orjson.JSONDecodeError as exc:
            raise _refusal(body, _in_whole(body, piece, exc)) from exc
        yield value
        # Drop the value before the next piece is read, so that only one value is in memory.
        del value
        await asyncio.sleep(0)


def _in_whole(
    body: bytes, piece: BodyPiece, error: orjson.JSONDecodeError
) -> orjson.JSONDecodeError:
    """Return the error of a piece with the position of the error in the whole body."""
    text = body.decode(errors="replace")
    before = len(body[: piece.start].decode(errors="replace"))
    position = before + max(0, error.pos - piece.added)
    return orjson.JSONDecodeError(error.msg, text, min(position, len(text)))


def _refusal(body: bytes, error: orjson.JSONDecodeError) -> MessageInvalidError:
    return MessageInvalidError([FieldProblem(path="message", message=_problem(body, error))])


def _problem(body: bytes, error: orjson.JSONDecodeError) -> str:
    if not body:
        return _EMPTY
    for beginning, problem in _BEYOND:
        if error.msg.startswith(beginning):
            return f"{problem}: {_position(error)}"
    return f"is not JSON: {error}"


def _position(error: orjson.JSONDecodeError) -> str:
    return f"line {error.lineno} column {error.colno} (char {error.pos})"

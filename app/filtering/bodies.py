"""Parses message bodies as JSON. A body is usually parsed only once for all subscriptions."""

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import orjson

from app.domain.message import UNPARSED, Message
from app.filtering.budget import WORK_MAX, BodyError, Budget
from app.json_reading import read_json

# The maximum total size, in bytes, of the bodies whose parsed form is cached. This is the size
# before parsing. The parsed form may be ten times as large.
PARSED_BYTES_MAX: Final = 8 << 20
# Parsed bodies that are older than this, in seconds, are dropped when another body is parsed. A
# short time is enough, because all subscriptions of a topic usually check a message at about the
# same time. The limit of the size alone would let a worker with few messages keep many bodies that
# nobody needs.
PARSED_KEPT_S: Final = 10.0

# The values of a body up to this length, in bytes, are not counted, because counting takes time.
# The body counts as if it were the most expensive body of its length.
_SHORT: Final = 4_096
# For each so many bytes of a body, one unit of work is free, because usual JSON takes work in
# proportion to its size.
_FREE_BYTES: Final = 32
# All byte values except those that begin or separate values in JSON.
_CONTENT: Final = bytes(set(range(256)) - set(b'[{,:"'))
# The work to create one list, object, value, member or text while JSON is parsed, in hundredths of
# a unit. These are the highest measured values.
_LIST: Final = 30
_OBJECT: Final = 13
_VALUE: Final = 8
_MEMBER: Final = 48
_QUOTE: Final = 6
# If the first count of a body's work is above the limit, the work is counted again without the
# body's texts. This is the maximum size in bytes of a body for the second count.
_AGAIN_BYTES_MAX: Final = 1 << 20
# The maximum number of quotation marks of a body whose work is counted again without its texts.
_AGAIN_QUOTES_MAX: Final = 40_000


class ParsedBodies:
    """Caches the parsed bodies of recent messages. Older messages are parsed again."""

    def __init__(
        self, *, bytes_max: int = PARSED_BYTES_MAX, clock: Callable[[], float] = monotonic
    ) -> None:
        self._bytes_max = bytes_max
        self._clock = clock
        # The messages whose parsed form is cached, each with the time from which it may be dropped.
        self._kept: deque[tuple[float, Message]] = deque()
        self._bytes = 0

    def of(self, message: Message, budget: Budget) -> Any:  # noqa: ANN401 - JSON can have any type
        """Return the body of a message as parsed JSON.

        The work of parsing is subtracted from each budget once, even if the body is already in the
        cache.

        Raises:
            BodyError: The body is not JSON, or takes too much work.
        """
        if message.parsed is not UNPARSED:
            if budget.parses:
                budget.parses = False
                budget.spend(message.parsed_work)
            return message.parsed
        body = message.body or b""
        work = parsing_work(body)
        budget.parses = False
        budget.spend(work)
        value = _parsed(body)
        self._keep(message, value, work)
        return value

    def _keep(self, message: Message, value: object, work: int) -> None:
        now, kept = self._clock(), self._kept
        message.parsed, message.parsed_work = value, work
        kept.append((now + PARSED_KEPT_S, message))
        self._bytes += len(message.body or b"")
        while kept and (self._bytes > self._bytes_max or kept[0][0] < now):
            _, dropped = kept.popleft()
            dropped.parsed = UNPARSED
            self._bytes -= len(dropped.body or b"")


def parsed(body: bytes | None, budget: Budget) -> Any:  # noqa: ANN401 - JSON can have any type
    """Parse `body` as JSON, and return the value. The work is subtracted from the budget.

    Raises:
        BodyError: The body is not JSON, or takes too much work.
    """
    body = body or b""
    budget.spend(parsing_work(body))
    return _parsed(body)


def parsing_work(body: bytes) -> int:
    """Return the work to parse `body`, mostly to create its values, in units of a budget.

    For a long body, some units in proportion to its size are free. They are not included.
    """
    if len(body) <= _SHORT:
        return len(body) * 2 // 5
    free = len(body) // _FREE_BYTES
    work = _structure_work(body) + len(body) // 256
    if work - free > WORK_MAX:
        work = _work_without_strings(body, work)
    return max(0, work - free)


def _work_without_strings(body: bytes, work: int) -> int:
    """Return the work to parse `body`, without counting commas and brackets inside of texts.

    If this count would take too long, return `work`: the first count, which includes the commas and
    brackets in texts.
    """
    quotes = body.count(b'"') + body.count(b"\\\\")
    if len(body) > _AGAIN_BYTES_MAX or quotes > _AGAIN_QUOTES_MAX:
        return work
    # First remove all double backslashes. A backslash that is left before a quotation mark always
    # escapes this quotation mark.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(plain.split(b'"')[::2])
    return _structure_work(outside) + len(body) // 64 + quotes * 21 // 100


def _structure_work(body: bytes) -> int:
    # First remove all bytes that are not counted. Counting the five kinds of characters in the
    # short remaining text takes less time.
    found = body.translate(None, _CONTENT)
    work = _LIST * found.count(b"[") + _OBJECT * found.count(b"{") + _VALUE * found.count(b",")
    return (work + _MEMBER * found.count(b":") + _QUOTE * found.count(b'"')) // 100


def _parsed(body: bytes) -> Any:  # noqa: ANN401 - JSON can have any type
    try:
        return read_json(body)
    except orjson.JSONDecodeError as exc:
        raise BodyError(f"the body is not JSON: {exc}") from exc

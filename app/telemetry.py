"""Structured logs: one event with fields per line, on stderr."""

import logging
import math
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from time import monotonic
from typing import Final

import structlog
from structlog.typing import EventDict, Processor

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
FRAMES_MAX: Final = 40
# The library whose log output is reduced. While a broker is down, this library logs seventy errors
# per second, and Angelia's adapter logs the important ones. At level DEBUG, the library would log
# requests with passwords.
_FLOODING: Final = "kafka"

# Within this time, the same unexpected error is logged only once. One request or batch can raise it
# a thousand times.
REPEATED_AFTER: Final = timedelta(minutes=1)
_DEFECTS_MAX: Final = 1_000
# The fields of a log event that distinguish errors. If two events have different values in one of
# these fields, they are about different errors.
_NAMED_BY: Final = ("event", "subscription", "topic", "step", "chore", "stage", "what", "job")

# Writes stack traces without the values of local variables, which may be bodies and passwords.
# Writing the local variables of a deep stack would also block the event loop for seconds.
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=FRAMES_MAX)
)


def configure_logging(level: str, *, process: int | None = None) -> None:
    """Send events of `level` (a key of LEVELS) and above to stderr.

    On a terminal, an event is a line for people to read; anywhere else, it is one JSON object per
    line. Events of libraries that use the standard library's logging have the same form. With
    `process`, each event has the number of its process.
    """
    shared: Sequence[Processor] = (
        *_marks(process),
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(shared))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(LEVELS[level])
    logging.getLogger(_FLOODING).setLevel(logging.INFO if level == "debug" else logging.CRITICAL)
    structlog.configure(
        processors=[
            SeldomRepeated(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


class SeldomRepeated:
    """Drops events whose error was recently logged.

    The next event with the error has the number of dropped events. Two errors are equal if they
    have the same type, were raised by the same line, and the fields `_NAMED_BY` of their events are
    equal.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        # For each error, when it was last logged, and how many events with it were dropped since
        # then.
        self._logged: dict[tuple[object, ...], tuple[float, int]] = {}

    def __call__(self, _logger: object, _method: str, event: EventDict) -> EventDict:
        """Return the event to log, with the number of dropped events that had the same error.

        Raises:
            structlog.DropEvent: The same error was recently logged.
        """
        error = _error_in(event)
        if error is None:
            return event
        kind = (*_kind(error), *(event.get(name) for name in _NAMED_BY))
        now = self._clock()
        last, dropped = self._logged.get(kind, (-math.inf, 0))
        if now - last < REPEATED_AFTER.total_seconds():
            self._logged[kind] = last, dropped + 1
            raise structlog.DropEvent
        if len(self._logged) >= _DEFECTS_MAX:
            self._logged.clear()
        self._logged[kind] = now, 0
        return {**event, "repeated": dropped} if dropped else event


def _error_in(event: EventDict) -> BaseException | None:
    given = event.get("exc_info")
    if isinstance(given, BaseException):
        return given
    return sys.exc_info()[1] if given else None


def _kind(error: BaseException) -> tuple[object, ...]:
    """Return the type of the error, and the line that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    line = None if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return type(error), line


def _marks(process: int | None) -> Sequence[Processor]:
    if process is None:
        return ()

    def mark(_logger: object, _method: str, event: EventDict) -> EventDict:
        return {**event, "process": process}

    return (mark,)


def _formatter(shared: Sequence[Processor]) -> logging.Formatter:
    on_terminal = sys.stderr.isatty()
    last: Sequence[Processor] = (
        (structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),)
        if on_terminal
        else (_TRACEBACKS, structlog.processors.JSONRenderer())
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )

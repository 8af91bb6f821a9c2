"""Structured logs: one event with fields per line, on stderr."""

import logging
import sys
from collections.abc import Sequence
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
# While a broker is down it logs seventy errors a second; the adapter tells what matters of them.
# As DEBUG it would log all requests, and passwords with them.
_FLOODING: Final = "kafka"

# Without the local variables, which structlog would show: they have bodies and passwords in them,
# and to print those of a deep stack takes seconds, in which the loop stands still.
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=FRAMES_MAX)
)


def configure_logging(level: str, *, process: int | None = None) -> None:
    """Send events of `level` (a key of LEVELS) and above to stderr.

    A terminal gets lines for people; anything else gets one JSON object per line. Events of
    libraries that use the standard library's logging come out in the same form. With `process`
    each says which of several processes it comes from.
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
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


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

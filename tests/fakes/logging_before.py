"""The configuration of logging in tests; it is restored after a command has changed it."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from structlog._config import BoundLoggerLazyProxy  # the type of what `get_logger` returns

_OURS: Final = ("angelia_client", "app", "migrations", "spark", "tests", "workers")
_PLAIN: Final = structlog.dev.ConsoleRenderer(
    colors=False, exception_formatter=structlog.dev.plain_traceback
)


def log_plain_tracebacks() -> None:
    """Let structlog log as by default, but without colours, and tracebacks as Python prints them.

    By default it draws tracebacks with all local variables. Each takes up to a second of CPU time.
    """
    structlog.reset_defaults()
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], _PLAIN])


@contextmanager
def logging_as_before() -> Iterator[None]:
    """Restore the configuration of logging after the block."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    if structlog.get_config()["cache_logger_on_first_use"]:
        _forget_loggers()
        root.handlers = handlers
        root.setLevel(level)
    log_plain_tracebacks()


def _forget_loggers() -> None:
    """Let the loggers of modules use a new configuration.

    structlog's loggers remember the configuration of their first event.
    """
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _OURS:
            for each in vars(module).values():
                if isinstance(each, BoundLoggerLazyProxy):
                    vars(each).pop("bind", None)

"""Logging as it was before a test: what a command in this process configures ends with the test."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from structlog._config import BoundLoggerLazyProxy  # what `get_logger` returns

_OURS: Final = ("angelia_client", "app", "migrations", "spark", "tests", "workers")


@contextmanager
def logging_as_before() -> Iterator[None]:
    """Undo after the block what was configured of logging in it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    if structlog.get_config()["cache_logger_on_first_use"]:
        _forget_loggers()
        root.handlers = handlers
        root.setLevel(level)
    structlog.reset_defaults()


def _forget_loggers() -> None:
    """Let the loggers of modules be configured anew: each keeps how it was at its first event."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _OURS:
            for each in vars(module).values():
                if isinstance(each, BoundLoggerLazyProxy):
                    vars(each).pop("bind", None)

"""Restores the configuration of logging after a test in which a command has changed it."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from structlog._config import BoundLoggerLazyProxy  # the type of what `get_logger` returns

_OURS: Final = ("angelia_client", "app", "migrations", "spark", "tests", "workers")


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
    structlog.reset_defaults()


def _forget_loggers() -> None:
    """Let the loggers of modules use a new configuration.

    structlog's loggers remember the configuration of their first event.
    """
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _OURS:
            for each in vars(module).values():
                if isinstance(each, BoundLoggerLazyProxy):
                    vars(each).pop("bind", None)

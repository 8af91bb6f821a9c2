"""Python processes that we start: they import ours, whatever lies in the current directory."""

import sys

from app.config import Settings


def python_command(module: str, *arguments: str) -> list[str]:
    """Run `module` on this Python, without the current directory among its paths."""
    return [sys.executable, "-P", "-m", module, *arguments]


def python_environment(settings: Settings) -> dict[str, str]:
    """That of a process with these settings; those that it starts leave the directory out, too.

    Spark starts Python processes of its own.
    """
    return settings.environment() | {"PYTHONSAFEPATH": "1"}

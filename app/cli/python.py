"""Starts Python processes of Angelia so that they import its modules in any current directory."""

import sys

from app.config import Settings


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command for `module` on this Python, without the current directory in its path."""
    return [sys.executable, "-P", "-m", module, *arguments]


def python_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a process with these settings, and of its child processes.

    Child processes are, for example, the Python processes of Spark.
    """
    return settings.environment() | {"PYTHONSAFEPATH": "1"}

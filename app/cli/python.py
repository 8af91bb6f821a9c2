"""Starts Python processes that can import Angelia's modules, whatever the current directory is."""

import sys

from app.config import Settings


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `module` with this Python.

    The current directory is not in the path of imports.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def python_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a process with these settings, and of its child processes.

    Such child processes are, for example, the Python processes of Spark.
    """
    return settings.environment() | {"PYTHONSAFEPATH": "1"}

"""A command that is a process of the service turns into it."""

import os
from typing import NoReturn

from app.cli.python import python_command, python_environment
from app.config import Settings


def become(module: str, settings: Settings) -> NoReturn:
    """Replace this process by another one of ours: signals and exit code are then its own."""
    command = python_command(module)
    os.execve(command[0], command, python_environment(settings))  # noqa: S606 - our own module

"""Turns the process of a command into a process of the service."""

import os
from typing import NoReturn

from app.cli.python import python_command, python_environment
from app.config import Settings


def become(module: str, settings: Settings) -> NoReturn:
    """Replace this process by another one, which runs `module`.

    The new process handles signals, and sets the exit code.
    """
    command = python_command(module)
    os.execve(command[0], command, python_environment(settings))  # noqa: S606 - the command is our own module

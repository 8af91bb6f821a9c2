"""A command that is a process of the service turns into it."""

import os
import sys
from typing import NoReturn

from app.config import Settings


def become(module: str, settings: Settings) -> NoReturn:
    """Replace this process by another one of ours: signals and exit code are then its own."""
    command = [sys.executable, "-m", module]
    os.execve(command[0], command, settings.environment())  # noqa: S606 - our own module

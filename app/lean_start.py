"""The first steps of each process of the service, before it imports anything else."""

import gc
import sys
from typing import Any, Final, cast

# Modules that the service does not need. Libraries import them only if they are installed:
# structlog and httpx for terminals, and FastAPI for an old version of pydantic.
_LEFT_OUT: Final = ("httpx._main", "pydantic.v1", "rich")


def start_lean() -> None:
    """Make all imports of this process take less time and memory.

    The garbage collector stays off until the process switches it on. Objects that are loaded at the
    start are not garbage, and looking for garbage would take a fifth of the CPU time of the start.
    """
    gc.disable()
    modules = cast("dict[str, Any]", sys.modules)
    for name in _LEFT_OUT:
        # Set the module to None in `sys.modules`. Then an import of this module fails, as if it
        # were not installed.
        modules.setdefault(name, None)

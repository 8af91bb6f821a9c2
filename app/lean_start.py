"""What a process of the service does before it imports anything else."""

import gc
import sys
from typing import Any, Final, cast

# Modules that libraries import only if they are installed. structlog and httpx use theirs for
# terminals, and FastAPI uses its module for an old pydantic. The service needs none of them.
_LEFT_OUT: Final = ("httpx._main", "pydantic.v1", "rich")


def start_lean() -> None:
    """Make all imports of this process take less time and memory.

    The garbage collector stays off until the process turns it on. Objects that are loaded at the
    start are not garbage, and looking for garbage would take a fifth of the CPU time of a start.
    """
    gc.disable()
    modules = cast("dict[str, Any]", sys.modules)
    for name in _LEFT_OUT:
        # Make Python say that there is no such module: that is the meaning of None in
        # `sys.modules`.
        modules.setdefault(name, None)

"""Who runs on which core: what is measured has one for itself, receivers and brokers the others.

Where there is only one core, or with `BENCH_PINNED=no` in the environment, everything runs
wherever the system puts it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_ALL: Final = sorted(os.sched_getaffinity(0))
_PINNED: Final = len(_ALL) > 1 and os.environ.get("BENCH_PINNED", "yes") != "no"

MEASURED: Final = frozenset(_ALL[:1]) if _PINNED else frozenset(_ALL)
OTHERS: Final = frozenset(_ALL[1:]) if _PINNED else frozenset(_ALL)


@contextmanager
def on_cores(cores: frozenset[int]) -> Iterator[None]:
    """Keep this thread, and the threads and processes that it starts, on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def move(pid: int, to: frozenset[int]) -> None:
    """Move a running process, with all threads that it has, to these cores."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), to)


def layout() -> str:
    """How it is laid out, for people to read."""
    if not _PINNED:
        return f"not pinned ({len(_ALL)} cores)"
    others = ", ".join(map(str, sorted(OTHERS)))
    return f"measured on core {min(MEASURED)}, the rest on {others}"

"""Memory that is freed goes back to the system. Each case runs in a process of its own."""

import subprocess
import sys
from typing import Final

from tests.servers.warm import ROOT

MB: Final = 1_000_000
# Two busy moments with small objects between them that stay, as in a service.
BUSY: Final = """
import os, psutil
{first}
kept = []
for _ in range(2):
    large = [bytearray(2_000_000) for _ in range(50)]
    parts = [bytes(each[:900_000]) for each in large]
    kept.append([bytes(3_000) for _ in range(200)])
    del large, parts
print(psutil.Process().memory_info().rss)
"""


def test_a_busy_moment_leaves_no_memory_behind() -> None:
    first = "from app.freed_memory import return_freed_memory; return_freed_memory()"
    assert left_by(BUSY.format(first=first)) < left_by(BUSY.format(first="")) - 30 * MB


def left_by(program: str) -> int:
    """The memory of a process that has run `program`, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return int(done.stdout)

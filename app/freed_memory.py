"""What the C library does with memory that the process has freed."""

import ctypes
from typing import Final

# The names of these options in <malloc.h> are M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.
_MMAP_THRESHOLD: Final = -3
_TRIM_THRESHOLD: Final = -1
# Larger objects get memory of their own, which is returned to the system when they are freed.
_OWN_MEMORY_BYTES: Final = 256 * 1024
# The most freed memory at the end of the heap that the process keeps.
_KEPT_BYTES: Final = 1024 * 1024


def return_freed_memory() -> None:
    """Return freed memory to the system soon. Does nothing with another C library than glibc.

    By default, glibc raises both limits when it frees a large object. Then a process keeps the
    memory of its busiest moment: an API that has answered with 200 MB stayed at 760 MB.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_MMAP_THRESHOLD, _OWN_MEMORY_BYTES)
        library.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)

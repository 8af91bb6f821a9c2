"""`python -m workers [NUMBER]` starts a worker process; its logs show the number."""

import gc
import sys

# Switch off the garbage collector: no object that is loaded now is garbage, and collecting takes a
# fifth of the CPU time of a start.
gc.disable()

from app.config import Settings  # noqa: E402 - imported with the collector off
from workers.process import serve  # noqa: E402 - imported with the collector off

if __name__ == "__main__":
    serve(Settings(), number=int(sys.argv[1]) if len(sys.argv) > 1 else None)

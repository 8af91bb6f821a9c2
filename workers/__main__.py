"""`python -m workers [NUMBER]`: a worker process; the number tells it from others in the logs."""

import gc
import sys

# Nothing that is loaded is garbage, and to look for some is a fifth of the CPU of a start.
gc.disable()

from app.config import Settings  # noqa: E402 - loaded after that
from workers.process import serve  # noqa: E402 - loaded after that

if __name__ == "__main__":
    serve(Settings(), number=int(sys.argv[1]) if len(sys.argv) > 1 else None)

"""`python -m workers [NUMBER]` starts a worker process; its logs show the number."""

import sys

from app.lean_start import start_lean

start_lean()

from app.config import Settings  # noqa: E402 - imported after the lean start
from workers.process import serve  # noqa: E402 - imported after the lean start

if __name__ == "__main__":
    serve(Settings(), number=int(sys.argv[1]) if len(sys.argv) > 1 else None)

"""`python -m app`: the API process, with the settings of the environment."""

import gc

# Switch off the garbage collector: no object that is loaded now is garbage, and collecting takes a
# fifth of the CPU time of a start.
gc.disable()

from app.config import Settings  # noqa: E402 - imported with the collector off
from app.main import serve  # noqa: E402 - imported with the collector off

if __name__ == "__main__":
    serve(Settings())

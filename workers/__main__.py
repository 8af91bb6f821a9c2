"""`python -m workers [NUMBER]`: a worker process; the number tells it from others in the logs."""

import gc
import sys

import uvloop

from app.config import Settings
from app.storage.configured import database_url
from app.telemetry import configure_logging
from workers.lifecycle import raise_file_limit
from workers.main import run


def main() -> None:
    """Run a worker with the settings of the environment until it is told to stop."""
    settings = Settings()
    number = int(sys.argv[1]) if len(sys.argv) > 1 else None
    configure_logging(settings.log_level, process=number)
    raise_file_limit()
    with database_url(settings) as url:
        gc.freeze()  # what is loaded by now lives as long as the process
        # Messages make no cycles: to look for some at each 700th costs a thirtieth of the CPU.
        gc.set_threshold(10_000, 20, 20)
        uvloop.run(run(settings, database_url=url, number=number or 1))


if __name__ == "__main__":
    main()

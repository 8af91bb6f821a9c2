"""A worker process: settings, log, and an event loop that runs until it is told to stop."""

import gc

import uvloop

from app.config import Settings
from app.storage.embedded.configured import database_url_or_exit
from app.telemetry import configure_logging
from workers.lifecycle import raise_file_limit
from workers.main import run


def serve(settings: Settings, *, number: int | None) -> None:
    """Run a worker until it is told to stop; its number tells it from others in the logs."""
    configure_logging(settings.log_level, process=number)
    raise_file_limit()
    with database_url_or_exit(settings) as url:
        gc.freeze()  # what is loaded by now lives as long as the process
        # Messages make no cycles, and to look for some takes 15 to 50 ms where a backlog is read:
        # deliveries wait for that. So not before there is much more than that could be.
        gc.set_threshold(100_000, 20, 20)
        gc.enable()
        uvloop.run(run(settings, database_url=url, number=number or 1))

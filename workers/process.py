"""A worker process: settings, log, and an event loop that runs until it is told to stop."""

import gc

import uvloop

from app.config import Settings
from app.storage.configured import database_url
from app.telemetry import configure_logging
from workers.lifecycle import raise_file_limit
from workers.main import run


def serve(settings: Settings, *, number: int | None) -> None:
    """Run a worker until it is told to stop; its number tells it from others in the logs."""
    configure_logging(settings.log_level, process=number)
    raise_file_limit()
    with database_url(settings) as url:
        gc.freeze()  # what is loaded by now lives as long as the process
        # Messages make no cycles: to look for some at each 700th costs a thirtieth of the CPU.
        gc.set_threshold(10_000, 20, 20)
        gc.enable()
        uvloop.run(run(settings, database_url=url, number=number or 1))

"""A worker process: settings, log output, and an event loop until the worker is stopped."""

import gc

import uvloop

from app.config import Settings
from app.freed_memory import return_freed_memory
from app.storage.embedded.configured import database_url_or_exit
from app.telemetry import configure_logging
from workers.lifecycle import raise_file_limit
from workers.main import run
from workers.telemetry.status_address import require_status_address


def serve(settings: Settings, *, number: int | None) -> None:
    """Run a worker until it is stopped; logs show its number."""
    configure_logging(settings.log_level, process=number)
    raise_file_limit()
    return_freed_memory()
    require_status_address(settings, number=number or 1)
    with database_url_or_exit(settings) as url:
        gc.freeze()  # Never collect the objects that are loaded by now.
        # Run the garbage collector more rarely than Python does by default, because messages form
        # no reference cycles. With a much higher threshold, collections delay deliveries: one of
        # 170,000 objects took 0.4 s. The oldest objects are looked at after two million new ones.
        # With a higher threshold, the cycles of ended consumers would wait for hours.
        gc.set_threshold(20_000, 5, 20)
        gc.enable()
        uvloop.run(run(settings, database_url=url, number=number or 1))

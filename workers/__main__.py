"""`python -m workers`: a worker process."""

import gc

import uvloop

from app.config import Settings
from app.storage.configured import database_url
from app.telemetry import configure_logging
from workers.lifecycle import raise_file_limit
from workers.main import run


def main() -> None:
    """Run a worker with the settings of the environment until it is told to stop."""
    settings = Settings()
    configure_logging(settings.log_level)
    raise_file_limit()
    with database_url(settings) as url:
        gc.freeze()  # what is loaded by now lives as long as the process
        uvloop.run(run(settings, database_url=url))


if __name__ == "__main__":
    main()

"""`python -m workers`: a worker process."""

import gc
from contextlib import nullcontext

import uvloop

from app.config import Settings
from app.storage.embedded import embedded_postgres
from app.telemetry import configure_logging
from workers.lifecycle import raise_file_limit
from workers.main import run


def main() -> None:
    """Run a worker with the settings of the environment until it is told to stop."""
    settings = Settings()
    configure_logging(settings.log_level)
    raise_file_limit()
    configured = settings.database_url
    database = (
        nullcontext(configured.get_secret_value())
        if configured
        else embedded_postgres(settings.home)
    )
    with database as database_url:
        gc.freeze()  # what is loaded by now lives as long as the process
        uvloop.run(run(settings, database_url=database_url))


if __name__ == "__main__":
    main()

"""`python -m spark`: a Spark runner."""

import asyncio
import logging
import sys

import structlog

from app.config import Settings
from app.storage.embedded.configured import database_url_or_exit
from app.telemetry import configure_logging
from spark.errors import EngineLostError
from spark.main import run

_log = structlog.get_logger(__name__)


def main() -> None:
    """Run Spark jobs, with the settings of the environment, until the process is stopped."""
    settings, ended = Settings(), 0
    configure_logging(settings.log_level)
    # Log only warnings of py4j, because at lower levels py4j logs every connection that it closes.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with database_url_or_exit(settings) as url:
        try:
            asyncio.run(run(settings, database_url=url))
        except* EngineLostError:
            _log.error("spark_lost", advice="start the runner again; its job is not lost")
            ended = 1
    sys.exit(ended)


if __name__ == "__main__":
    main()

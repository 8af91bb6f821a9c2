"""`python -m spark`: a Spark runner."""

import asyncio
import logging

from app.config import Settings
from app.storage.configured import database_url
from app.telemetry import configure_logging
from spark.main import run


def main() -> None:
    """Do Spark jobs with the settings of the environment until it is told to stop."""
    settings = Settings()
    configure_logging(settings.log_level)
    # It tells of every connection that it closes.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with database_url(settings) as url:
        asyncio.run(run(settings, database_url=url))


if __name__ == "__main__":
    main()

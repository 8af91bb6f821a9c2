"""Builds the parts of the Spark runner from the settings, and runs it."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack, closing
from functools import partial
from uuid import uuid4

import structlog

from app.config import Settings
from app.log.factory import open_log
from app.postgres.urls import DatabaseUrl
from app.storage.database import open_database
from app.storage.keyring import open_vault
from app.storage.notices import JOBS, listen
from spark.engine import SparkEngine
from spark.runner import Engine, Runner
from spark.store import DatabaseJobs

_log = structlog.get_logger(__name__)


def spark(settings: Settings, database_url: DatabaseUrl) -> AbstractContextManager[Engine]:
    """Return a context manager that yields the Spark engine, and ends its session when it exits."""
    return closing(SparkEngine(settings, database_url=database_url))


async def run(
    settings: Settings,
    *,
    database_url: DatabaseUrl,
    engine: Callable[[Settings, DatabaseUrl], AbstractContextManager[Engine]] = spark,
) -> None:
    """Run jobs until SIGTERM or SIGINT. A further SIGINT ends the process immediately.

    Raises:
        SecretKeyError: The configured secret keys cannot be used.
    """
    runner = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stopping.set()
        loop.remove_signal_handler(signal.SIGINT)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(
            open_database(database_url, vault=open_vault(settings))
        )
        notices = await stack.enter_async_context(listen(database_url, [JOBS]))
        started = stack.enter_context(engine(settings, database_url))
        _log.info("spark_runner_started", runner=runner, master=settings.spark_master)
        store = DatabaseJobs(
            database,
            notices,
            runner,
            open_a_log=partial(open_log, settings, database_url=database_url),
        )
        await Runner(store, started).run(stopping)
        _log.info("spark_runner_stopped", runner=runner)

"""Housekeeping that is done again and again, as long as a process runs."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from app.domain.errors import UnavailableError

_log = structlog.get_logger(__name__)


async def repeat(chore: Callable[[], Awaitable[None]], *, every: timedelta, name: str) -> None:
    """Do `chore` after each `every`, until cancelled.

    A log or a database that is down, and a defect of the chore, are logged under `name`: it is
    tried again the next time, for nobody waits for it.
    """
    while True:
        await asyncio.sleep(every.total_seconds())
        try:
            await chore()
        except UnavailableError as error:
            _log.warning("chore_put_off", chore=name, reason=error.message)
        except Exception:  # noqa: BLE001 - the process goes on without it
            _log.exception("chore_broke", chore=name)

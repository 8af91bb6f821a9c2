"""Periodic tasks of a process."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from app.domain.errors import UnavailableError
from app.outages import Outage

_log = structlog.get_logger(__name__)


async def repeat(chore: Callable[[], Awaitable[None]], *, every: timedelta, name: str) -> None:
    """Run the function `chore` again and again, each time after a pause of `every`.

    This ends only when it is cancelled. If the log or the database is down, or `chore` has a bug,
    the error is logged under `name`. Then `chore` runs again after the next pause.
    """
    outage = Outage(_log, "chore_put_off")
    while True:
        await asyncio.sleep(every.total_seconds())
        try:
            await chore()
        except UnavailableError as error:
            outage.failed(chore=name, reason=error.message)
        except Exception:  # noqa: BLE001 - the process continues without this chore
            _log.exception("chore_broke", chore=name)
        else:
            outage.ended(chore=name)

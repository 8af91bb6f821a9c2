"""How much the event loop of this process has to do."""

import asyncio
from time import monotonic

from app.metrics import catalogue
from app.metrics.readings import Readings


async def read_event_loop(readings: Readings) -> None:
    """Add the number of tasks, and the time until the loop runs a callback that is ready now."""
    readings.add(catalogue.LOOP_TASKS, len(asyncio.all_tasks()))
    ready_at = monotonic()
    await asyncio.sleep(0)
    readings.add(catalogue.LOOP_LAG, monotonic() - ready_at)

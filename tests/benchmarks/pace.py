"""The pace of a measurement: here time itself is what is waited for."""

import asyncio
import time


async def until(moment: float) -> None:
    """Return at `moment` of the monotonic clock, or at once when it has passed."""
    await asyncio.sleep(max(0.0, moment - time.monotonic()))

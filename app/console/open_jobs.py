"""Finds the Spark jobs that have not ended."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import Api, gathered

# The states of jobs that have not ended. Such jobs can be cancelled.
OPEN: Final = ("RUNNING", "REQUESTED")


async def open_jobs(api: Api, limit: int) -> Sequence[Mapping[str, Any]]:
    """Return jobs that have not ended: first those that run, then those that wait for a runner.

    For each of the two states, at most `limit` jobs are returned.

    Raises:
        ApiRefusedError: The API has answered with an error.
    """
    pages = await gathered(*(api.get("/jobs", {"state": state, "limit": limit}) for state in OPEN))
    return [job for page in pages for job in page]

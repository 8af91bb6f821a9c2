"""Spark jobs that have not ended."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import Api, gathered

# The states of jobs that have not ended, and that can be cancelled.
OPEN: Final = ("RUNNING", "REQUESTED")


async def open_jobs(api: Api, limit: int) -> Sequence[Mapping[str, Any]]:
    """Return the jobs that have not ended, the running ones first; at most `limit` of each state.

    Raises:
        ApiRefusedError: The API has answered with an error.
    """
    pages = await gathered(*(api.get("/jobs", {"state": state, "limit": limit}) for state in OPEN))
    return [job for page in pages for job in page]

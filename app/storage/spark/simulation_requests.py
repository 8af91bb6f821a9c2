"""Reads requests of simulations for Spark jobs, by calls that block, from any machine.

URLs are in psycopg's form (`app.postgres.urls.libpq_url`).
"""

from typing import Final

from psycopg import sql

from app.domain.errors import JobNotFoundError
from app.domain.insight.simulation import SimulationRequest
from app.storage.json_values import from_json
from app.storage.spark.copying import connected

_REQUEST: Final = sql.SQL("SELECT topic, request FROM simulations WHERE job_id = {job_id}")


def requested_simulation(url: str, job_id: str) -> tuple[str, SimulationRequest]:
    """Return the topic and the request of that job.

    Raises:
        JobNotFoundError: The job does not exist.
    """
    with connected(url) as connection:
        row = connection.execute(_REQUEST.format(job_id=job_id)).fetchone()
    if row is None:
        raise JobNotFoundError(f"Nothing is to be simulated by {job_id}")
    topic, request = row
    return topic, SimulationRequest(**from_json(SimulationRequest, request))

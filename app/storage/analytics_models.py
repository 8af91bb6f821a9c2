"""The tables of analyses, beside those in `models`."""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, Table, Text

from app.storage.analytics_parts import LATENCY, LATENCY_FIGURES
from app.storage.ledger_models import metadata as metadata  # noqa: PLC0414 - of all tables

# The messages of one subscription, as one taking (`attempt`) of a job saw them.
ANALYTICS_LATENCY: Final = Table(
    LATENCY,
    metadata,
    Column("job_id", Text, ForeignKey("spark_jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    # The partition of the result, and the row in it: a partition that is written twice replaces.
    Column("part", Integer, primary_key=True),
    Column("row", Integer, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("subscription_id", Text, nullable=False),
    Column("subscription", Text, nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("delivered", BigInteger, nullable=False),
    Column("discarded", BigInteger, nullable=False),
    Column("unknown", BigInteger, nullable=False),
    Column("resent", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    # NULL without an SLO.
    Column("within", BigInteger),
    # NULL where nothing was delivered.
    *(Column(name, BigInteger) for name in LATENCY_FIGURES),
)

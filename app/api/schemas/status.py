"""Readiness as answered."""

from typing import Literal

from app.api.schemas.base import Schema


class ReadinessRead(Schema):
    """Whether this process can do its work, and per part (log, database, migrations)."""

    status: Literal["READY", "NOT_READY"]
    parts: dict[str, bool]

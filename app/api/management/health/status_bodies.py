"""Readiness in responses."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from app.api.bodies.base import Schema


class ProcessHealthRead(Schema):
    """Says that this process responds, and where acknowledged messages can be lost.

    `throttled` names the brokers that throttle this process, or did in the last minute.
    """

    status: Literal["UP"]
    may_lose: list[str]
    throttled: list[str]


class ReadinessRead(Schema):
    """Whether this process can do its work, and whether each of its parts can.

    Parts: log, logWritable (whether it accepted the last publication), database, migrations,
    datacenter. `waitingFor` has the problem of each part that is not ready.
    """

    status: Literal["READY", "NOT_READY"]
    parts: dict[str, bool]
    waiting_for: dict[str, str] = Field(default_factory=dict)


def readiness_read(waits: Mapping[str, str]) -> ReadinessRead:
    """Return the response. `waits` has the problem of each part that is not ready."""
    left = {name: why for name, why in waits.items() if why}
    return ReadinessRead(
        status="NOT_READY" if left else "READY",
        parts={name: not why for name, why in waits.items()},
        waiting_for=left,
    )

"""Readiness as answered."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from app.api.bodies.base import Schema


class ProcessHealthRead(Schema):
    """That this process answers, and where messages that were acknowledged can be lost."""

    status: Literal["UP"]
    may_lose: list[str]


class ReadinessRead(Schema):
    """Whether this process can do its work, and per part whether that is as it should be.

    Parts: log, logWritable (whether it took what was published last), database, migrations,
    datacenter. `waitingFor` says of each part that is not as it should be what is wrong with it.
    """

    status: Literal["READY", "NOT_READY"]
    parts: dict[str, bool]
    waiting_for: dict[str, str] = Field(default_factory=dict)


def readiness_read(waits: Mapping[str, str]) -> ReadinessRead:
    """As answered, from what each part waits for: nothing where it is as it should be."""
    left = {name: why for name, why in waits.items() if why}
    return ReadinessRead(
        status="NOT_READY" if left else "READY",
        parts={name: not why for name, why in waits.items()},
        waiting_for=left,
    )

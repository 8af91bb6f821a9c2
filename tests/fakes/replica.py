"""A replica of the database in memory that is behind, and becomes the server."""

from collections.abc import Mapping
from copy import copy
from dataclasses import fields
from datetime import timedelta
from typing import Any, Final

from tests.fakes.worker import ControlPlane

# The fields that are not stored in the database.
_NOT_STORED: Final = frozenset({"down", "server", "changed", "noticed"})


def replica_of(plane: ControlPlane) -> Mapping[str, Any]:
    """Return a copy of everything that is stored now."""
    names = {each.name for each in fields(plane)} - _NOT_STORED
    return {name: copy(getattr(plane, name)) for name in sorted(names)}


def fail_over(plane: ControlPlane, replica: Mapping[str, Any]) -> None:
    """Let a replica become the server. It lacks what was stored since it was copied."""
    plane.server += timedelta(seconds=1)
    for name, value in replica.items():
        mine = getattr(plane, name)
        if isinstance(mine, list):
            mine[:] = value
        elif isinstance(mine, dict):
            mine.clear()
            mine.update(value)
        else:
            setattr(plane, name, value)
    plane.changed.send()

"""`trackingMode` and `trackingEnabled`: two fields of Hermes for one setting."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from app.api.bodies.base import JsonObject
from app.domain.trace import TrackingMode

Mode = Literal["trackingOff", "discardedOnly", "trackingAll"]

MODE_TEXT: Final = (
    "what is traced: nothing, what is discarded (of topics: not published), or everything"
)
ENABLED_TEXT: Final = "without `trackingMode`: trackingAll or trackingOff"


def tracking_of(mode: Mode | None, enabled: bool | None) -> TrackingMode:  # noqa: FBT001 - the value of Hermes' field
    """Return the requested mode: that of `trackingMode` if present, else of `trackingEnabled`."""
    if mode is not None:
        return TrackingMode(mode)
    return TrackingMode.ALL if enabled else TrackingMode.OFF


def by_enabled(wanted: JsonObject, patch: Mapping[str, Any], current: TrackingMode) -> JsonObject:
    """Return `wanted`, with a tracking mode if `patch` has `trackingEnabled` but no mode.

    `wanted` has all fields of the object after the patch. If the patch enables tracking, and some
    tracking is on already, the current mode stays.
    """
    enabled = patch.get("trackingEnabled")
    if "trackingMode" in patch or enabled is (current is not TrackingMode.OFF):
        return wanted
    if not isinstance(enabled, bool):
        return wanted
    return {**wanted, "trackingMode": tracking_of(None, enabled).value}

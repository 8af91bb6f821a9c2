"""What the owner of a subscription tells operators about it. Deliveries do not depend on this."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from app.domain.errors import ValidationFailedError

REACTION_LENGTH_MAX: Final = 10_000
METADATA_LENGTH_MAX: Final = 10_000


class Severity(StrEnum):
    """How important the health of a subscription is. The values are those of Hermes."""

    CRITICAL = "CRITICAL"
    IMPORTANT = "IMPORTANT"
    NON_IMPORTANT = "NON_IMPORTANT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """How important a subscription is to its owner, and what operators do if it is unhealthy."""

    severity: Severity = Severity.NON_IMPORTANT
    reaction: str = ""


def require_metadata(given: Mapping[str, Any], *, path: str) -> None:
    """Check the metadata of a subscription.

    Raises:
        ValidationFailedError: The metadata is too large, or cannot be stored.
    """
    text = json.dumps(given) if given else ""
    if len(text) > METADATA_LENGTH_MAX:
        message = f"must be at most {METADATA_LENGTH_MAX} characters of JSON"
        raise ValidationFailedError.of(path, message)
    if "\\u0000" in text:
        raise ValidationFailedError.of(path, "must be without zero characters")

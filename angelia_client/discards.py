"""Selections of discarded messages (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from angelia_client.requests import Query, time_text


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardQuery:
    """Selects discarded messages that match all given fields.

    `since` inclusive, `until` not. `status`: the last response status. `reason` and `text`: a part
    of the reason and of the body.
    """

    since: datetime | None = None
    until: datetime | None = None
    status: int | None = None
    reason: str | None = None
    key: str | None = None
    message_id: str | None = None
    text: str | None = None
    page_size: int = 100

    def as_query(self) -> Query:
        """Return the API's query parameters."""
        return {
            "since": self.since,
            "until": self.until,
            "status": self.status,
            "reason": self.reason,
            "key": self.key,
            "messageId": self.message_id,
            "text": self.text,
            "limit": self.page_size,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """Discarded messages to send again: those that match all given fields.

    The time of their discard (`since` inclusive, `until` not), a part of the reason, the last
    response status, their ids, their partition key, a part of the body; `again`: also those that
    were sent again before.
    """

    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None
    status_codes: Sequence[int] = ()
    message_ids: Sequence[str] = ()
    again: bool = False
    key: str | None = None
    text: str | None = None

    def as_body(self) -> dict[str, Any]:
        """Return the API's body."""
        given: dict[str, Any] = {
            "from": None if self.since is None else time_text(self.since),
            "to": None if self.until is None else time_text(self.until),
            "reason": self.reason,
            "statusCodes": list(self.status_codes),
            "messageIds": list(self.message_ids),
            "again": self.again,
            "key": self.key,
            "text": self.text,
        }
        return {"only": "discarded"} | {name: value for name, value in given.items() if value}

"""Selections of discarded messages (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from angelia_client.requests import Query, time_text


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardQuery:
    """Selects discarded messages that match all given fields.

    Attributes:
        since: The earliest time of the discard.
        until: The time before which the discard happened.
        status: The status of the last response.
        reason: A part of the text of the reason.
        key: The partition key.
        message_id: The id of the message.
        text: A part of the body.
        page_size: How many messages one request gets.
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
        """Return the selection as query parameters of the API."""
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
    """Selects discarded messages to send again: those that match all given fields.

    Attributes:
        since: The earliest time of the discard.
        until: The time before which the discard happened.
        reason: A part of the text of the reason.
        status_codes: The status of the last response must be one of these.
        message_ids: The id of the message must be one of these.
        again: Whether to select also messages that were already sent again.
        key: The partition key.
        text: A part of the body.
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
        """Return the selection as a request body of the API."""
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

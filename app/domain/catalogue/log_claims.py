"""Claims on topics that a request changes in the log and in the database.

Only one request at a time has the claim on a topic. A claim is not a lock: no other request waits
while the log does not respond. If the process of a request dies, the claim remains, and shows what
may be incomplete.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Intent(StrEnum):
    """What a request does in the log with a topic, or (COMMIT) with positions of a subscription."""

    CREATE = "create"
    ALTER = "alter"
    DELETE = "delete"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogClaim:
    """The right of one request to change one thing in the log, until it is released or expires.

    Attributes:
        subject: What is changed: a topic, or a consumer group.
        intent: What the request does.
        token: Identifies the request.
        left: What an earlier request did not finish under its own claim; None if there is nothing.
        begun: Whether the request has begun to change the log.
    """

    subject: str
    intent: Intent
    token: str
    left: Intent | None = None
    begun: bool = False

    @property
    def to_end(self) -> Intent:
        """Return what another request must do if the process of this claim dies now.

        A deletion must be finished only if it has `begun`; before that, the topic may stay. In all
        other cases, the log is made equal to the database.
        """
        if self.intent is Intent.DELETE and not self.begun:
            return self.left or Intent.ALTER
        return self.intent

    @property
    def holder(self) -> str:
        """The stored form of the claim: `to_end`, and the token of the request."""
        return f"{self.to_end}:{self.token}"

    @classmethod
    def of(cls, subject: str, holder: str) -> Self:
        """Return the claim from the form in which it is stored."""
        intent, _, token = holder.partition(":")
        return cls(subject=subject, intent=Intent(intent), token=token, begun=True)

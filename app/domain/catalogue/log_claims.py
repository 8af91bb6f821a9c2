"""Claims on topics that a request changes in the log and in the database.

Only one request at a time has the claim on a topic. A claim is not a lock: no other request waits
while the log does not respond. If the process of a request dies, the claim remains, and shows what
may be incomplete.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Intent(StrEnum):
    """What a request is going to do in the log."""

    CREATE = "create"
    ALTER = "alter"
    DELETE = "delete"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogClaim:
    """A request's claim on a `subject`, until it is released or expires.

    `token` identifies the request. `left` is what an earlier request began under its claim and did
    not finish.
    """

    subject: str
    intent: Intent
    token: str
    left: Intent | None = None
    begun: bool = False

    @property
    def to_end(self) -> Intent:
        """Return what must be finished if the process of this claim dies now.

        A deletion must be finished only if it has `begun`; before that, the topic may stay. In all
        other cases, the log is made equal to the database.
        """
        if self.intent is Intent.DELETE and not self.begun:
            return self.left or Intent.ALTER
        return self.intent

    @property
    def holder(self) -> str:
        """The claim as it is stored: its request, and what must be finished."""
        return f"{self.to_end}:{self.token}"

    @classmethod
    def of(cls, subject: str, holder: str) -> Self:
        """Return the claim from the form in which it is stored."""
        intent, _, token = holder.partition(":")
        return cls(subject=subject, intent=Intent(intent), token=token, begun=True)

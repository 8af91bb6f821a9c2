"""Claims on topics that a request changes in the log and in the database: one request at a time.

A claim is not a lock: no other request waits while the log does not respond. A claim remains if its
process dies, and then shows what may be incomplete.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Intent(StrEnum):
    """What a request is about to do in the log."""

    CREATE = "create"
    ALTER = "alter"
    DELETE = "delete"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogClaim:
    """A request's claim on a `subject`, until it is released or expires; `token` is the request's.

    `left` is what an earlier request began under its claim and did not finish.
    """

    subject: str
    intent: Intent
    token: str
    left: Intent | None = None
    begun: bool = False

    @property
    def to_end(self) -> Intent:
        """Return what must be finished if the process of this claim dies now.

        A deletion counts only after it has `begun`: before that, the topic may stay. Then the log
        is made to match the database, as after any other intent.
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

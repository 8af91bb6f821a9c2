"""Claims of requests that change the log besides the database: one at a time for each subject.

A claim is not a lock: no other request waits while the log does not respond. It outlives a process
that dies, and then shows what may be incomplete.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Intent(StrEnum):
    """What is done in the log."""

    CREATE = "create"
    ALTER = "alter"
    DELETE = "delete"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogClaim:
    """The claim of a `subject`, held by the request with this `token` until released or expired.

    `left` is what an earlier holder began and did not finish.
    """

    subject: str
    intent: Intent
    token: str
    left: Intent | None = None
    begun: bool = False

    @property
    def to_end(self) -> Intent:
        """Return what must be finished if the holder dies now.

        A deletion counts only after it has `begun`: before that, the topic may stay. Then the log
        is made to match the database, as after any other intent.
        """
        if self.intent is Intent.DELETE and not self.begun:
            return self.left or Intent.ALTER
        return self.intent

    @property
    def holder(self) -> str:
        """The stored form: the holder, and what must be finished."""
        return f"{self.to_end}:{self.token}"

    @classmethod
    def of(cls, subject: str, holder: str) -> Self:
        """Return the claim from its stored form."""
        intent, _, token = holder.partition(":")
        return cls(subject=subject, intent=Intent(intent), token=token, begun=True)

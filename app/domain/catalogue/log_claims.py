"""What a request does in the log beside the database: claimed, so that one at a time does it.

A claim is no lock: nobody else waits while the log does not answer. It outlives a process that
dies, and then says what may be half done.
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
    """`subject` is the claimant's, who is known by a `token`, until it is given up or too old.

    `left` is what an earlier claimant began with it and did not end.
    """

    subject: str
    intent: Intent
    token: str
    left: Intent | None = None
    begun: bool = False

    @property
    def to_end(self) -> Intent:
        """What is to be ended if the claimant dies now.

        A deletion is none before it has `begun`: the topic may be there to stay. Then the log is
        made to agree with the database, as after any other intent.
        """
        if self.intent is Intent.DELETE and not self.begun:
            return self.left or Intent.ALTER
        return self.intent

    @property
    def holder(self) -> str:
        """As it is stored: who has it, and what is to be ended."""
        return f"{self.to_end}:{self.token}"

    @classmethod
    def of(cls, subject: str, holder: str) -> Self:
        """The claim that was stored so."""
        intent, _, token = holder.partition(":")
        return cls(subject=subject, intent=Intent(intent), token=token, begun=True)

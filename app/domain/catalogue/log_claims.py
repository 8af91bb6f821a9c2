"""Claims on topics that a request changes both in the log and in the database.

Only one request at a time has the claim on a topic. A claim is not a lock: if the log does not
respond to one request, no other request waits for it. If the process of a request dies, the claim
remains, and shows which change may be incomplete.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Intent(StrEnum):
    """What a request changes in the log.

    COMMIT sets the commits of a subscription. The others change a topic.
    """

    CREATE = "create"
    ALTER = "alter"
    DELETE = "delete"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogClaim:
    """The right of one request to change one thing in the log, until it is released or expires.

    Attributes:
        subject: The thing that is changed: a topic, or a consumer group.
        intent: What the request does with it.
        token: Identifies the request.
        left: The intent of an earlier request that did not finish; None if there is none.
        begun: Whether the request has begun to change the log.
    """

    subject: str
    intent: Intent
    token: str
    left: Intent | None = None
    begun: bool = False

    @property
    def to_end(self) -> Intent:
        """The change that another request must finish if the process of this claim dies now.

        A deletion must be finished only if it has `begun`, because before that the topic may stay.
        In all other cases, the log is made equal to the database.
        """
        if self.intent is Intent.DELETE and not self.begun:
            return self.left or Intent.ALTER
        return self.intent

    @property
    def holder(self) -> str:
        """The text with which the claim is stored: `to_end`, and the token of the request."""
        return f"{self.to_end}:{self.token}"

    @classmethod
    def of(cls, subject: str, holder: str) -> Self:
        """Return the claim on `subject` from `holder`, the text with which the claim is stored."""
        intent, _, token = holder.partition(":")
        return cls(subject=subject, intent=Intent(intent), token=token, begun=True)

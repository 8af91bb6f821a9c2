"""Completeness ledgers: what became of every message that a subscription was to get."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from angelia_client.reading import Answered, Instant, Said


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSums(Answered):
    """How many messages; those up to `resent` are as many as those from `delivered` to `missing`.

    `gone` are those of all that the log had no longer, `recorded` the discards with a record.
    """

    SCHEMA: ClassVar[str] = "LedgerSumsRead"

    carried: int
    published: int
    resent: int
    delivered: int
    discarded: int
    filtered: int
    cancelled: int
    unfinished: int
    missing: int
    gone: int
    recorded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry(Answered):
    """What became of all messages from the end of the entry before on.

    `proved`: nothing about it is doubtful; else `doubts` say what is.
    """

    SCHEMA: ClassVar[str] = "LedgerEntryRead"

    number: int
    since: Annotated[Instant, Said(name="from")]
    until: Annotated[Instant, Said(name="to")]
    proved: bool
    doubts: list[str]
    sums: LedgerSums
    hash: str
    previous: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger(Answered):
    """Entries that follow each other, oldest first, and what they say together."""

    SCHEMA: ClassVar[str] = "LedgerRead"

    since: Annotated[Instant, Said(name="from")]
    until: Annotated[Instant, Said(name="to")]
    proved: bool
    sums: LedgerSums
    entries: list[LedgerEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCheck(Answered):
    """Whether all entries are as they were written; `broken` is the first that is not, and why."""

    SCHEMA: ClassVar[str] = "LedgerCheckRead"

    intact: bool
    entries: int
    hash: str | None
    broken: int | None
    reason: str | None

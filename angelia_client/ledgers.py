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
class LedgerRange(Answered):
    """Offsets of a partition, from `offset` to before `to_offset`."""

    SCHEMA: ClassVar[str] = "LedgerRangeRead"

    partition: int
    offset: int
    to_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry(Answered):
    """What became of all messages from the end of the entry before on.

    `proved`: nothing about it is doubtful; else `doubts` say what is. What it misses is in the
    ranges `missing_among`, and in more if `missing_among_more`.
    """

    SCHEMA: ClassVar[str] = "LedgerEntryRead"

    number: int
    since: Annotated[Instant, Said(name="from")]
    until: Annotated[Instant, Said(name="to")]
    proved: bool
    doubts: list[str]
    sums: LedgerSums
    missing_among: tuple[LedgerRange, ...]
    missing_among_more: bool
    hash: str
    previous: str
    key_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger(Answered):
    """What all `entry_count` entries about some of a time say together; `entries`: the newest.

    Sums and doubts are of what is covered. `proved`: that is all of the time from `since` to
    `until`, and nothing about it is doubtful.
    """

    SCHEMA: ClassVar[str] = "LedgerRead"

    since: Annotated[Instant, Said(name="from")]
    until: Annotated[Instant, Said(name="to")]
    covered_from: Instant | None
    covered_to: Instant | None
    proved: bool
    doubts: list[str]
    sums: LedgerSums
    entry_count: int
    entries: tuple[LedgerEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCheck(Answered):
    """Whether all entries are as they were written; `broken` is the first that is not, and why.

    `signed`: all are signed with keys of the service; else those from `signed_from` on are, if any.
    """

    SCHEMA: ClassVar[str] = "LedgerCheckRead"

    intact: bool
    entries: int
    signed: bool
    signed_from: int | None
    hash: str | None
    broken: int | None
    reason: str | None

"""Ledgers: what happened to every message of a subscription."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from angelia_client.reading import Answered, Instant, Said


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSums(Answered):
    """Counts of messages. The sum up to `resent` equals the sum from `delivered` to `missing`.

    `gone` counts messages that the log no longer had, and `recorded` the discards that are
    recorded.
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
    """What happened to all messages since the end of the entry before.

    If `proved` is true, there are no `doubts`. The ranges in `missing_among` contain the missing
    messages; with `missing_among_more`, there are more such ranges.
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
    """The sums of all entries that overlap a time.

    There are `entry_count` of them; `entries` has the newest. Sums and doubts are about the covered
    time. If `proved` is true, this is all of the time from `since` to `until`, without doubts.
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
    """Whether all entries are unchanged; otherwise `broken` is the first changed one, and why.

    If `signed` is true, all entries are signed with keys of the service. Otherwise those from
    `signed_from` on are signed, if that is not None. `anchored` is the newest entry that is
    anchored in the log.
    """

    SCHEMA: ClassVar[str] = "LedgerCheckRead"

    intact: bool
    entries: int
    signed: bool
    signed_from: int | None
    hash: str | None
    anchored: int | None
    broken: int | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLink(Answered):
    """An entry exactly as it is stored, with the signature of its hash."""

    SCHEMA: ClassVar[str] = "LedgerLinkRead"

    number: int
    content: str
    previous: str
    hash: str
    key_id: str | None
    signature: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerKey(Answered):
    """A public key (PEM) that verifies signatures of ledgers."""

    SCHEMA: ClassVar[str] = "LedgerKeyRead"

    key_id: str
    public_key: str

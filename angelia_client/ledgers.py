"""Ledgers: what happened to every message of a subscription."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from angelia_client.reading import Answered, FromJson, Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSums(Answered):
    """Counts of what happened to messages in the time of a ledger entry.

    The sum of the first three counts equals the sum of the next six counts.

    Attributes:
        carried: Messages that were published earlier, and were unfinished at the start of the time.
        published: Messages that were published in the time.
        resent: Messages that retransmissions added.
        delivered: Delivered messages.
        discarded: Discarded messages.
        filtered: Messages that were filtered out.
        cancelled: Messages of cancelled retransmissions.
        unfinished: Messages that were unfinished at the end of the time.
        missing: Messages that the subscription has passed, and that were neither delivered nor
            discarded, filtered out or cancelled.
        gone: Messages that the log no longer had when the messages were counted. The counts above
            include these messages.
        recorded: The discarded messages whose discard is recorded.
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
    """A range of offsets in a partition, from `offset` to the offset before `to_offset`."""

    SCHEMA: ClassVar[str] = "LedgerRangeRead"

    partition: int
    offset: int
    to_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry(Answered):
    """What happened to all messages since the end of the previous entry.

    Attributes:
        number: The number of the entry.
        since: The start of the entry's time.
        until: The end of the entry's time.
        proved: Whether there are no doubts about the counts.
        doubts: The reasons for doubts about the counts.
        sums: The counts.
        missing_among: Ranges of offsets that contain the missing messages.
        missing_among_more: Whether there are more ranges with missing messages.
        hash: The hash of this entry. It covers also all previous entries.
        previous: The hash of the previous entry.
        key_id: The id of the key that signed the entry; None if the entry is not signed.
    """

    SCHEMA: ClassVar[str] = "LedgerEntryRead"

    number: int
    since: Annotated[Instant, FromJson(name="from")]
    until: Annotated[Instant, FromJson(name="to")]
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
    """The sums of all entries that overlap a requested time.

    Attributes:
        since: The start of the requested time.
        until: The end of the requested time.
        covered_from: The start of the first of these entries. The sums count from this time on.
        covered_to: The end of the last of these entries.
        proved: Whether the entries cover the whole requested time, without doubts.
        doubts: The reasons for doubts about the counts.
        sums: The counts of all these entries together.
        entry_count: How many entries overlap the requested time.
        entries: The newest of these entries.
    """

    SCHEMA: ClassVar[str] = "LedgerRead"

    since: Annotated[Instant, FromJson(name="from")]
    until: Annotated[Instant, FromJson(name="to")]
    covered_from: Instant | None
    covered_to: Instant | None
    proved: bool
    doubts: list[str]
    sums: LedgerSums
    entry_count: int
    entries: tuple[LedgerEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCheck(Answered):
    """Whether all entries of a ledger are unchanged.

    Attributes:
        intact: Whether all entries are unchanged.
        entries: How many entries are unchanged.
        signed: Whether all entries are signed with keys of the service.
        signed_from: The number of the first signed entry; None if none is signed.
        hash: The hash of the last unchanged entry.
        anchored: The number of the newest entry whose hash is also in the log.
        broken: The number of the first changed or missing entry; None if there is none.
        reason: What is wrong with that entry.
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

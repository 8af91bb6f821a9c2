"""Ledgers in responses."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from pydantic import Field

from app.api.bodies.base import JsonObject, Schema
from app.domain.errors import ValidationFailedError
from app.domain.insight.ledger import LedgerEntry, PartitionSums, Sums
from app.domain.insight.ledger_chain import Check, KnownHash, LedgerLink
from app.domain.insight.ledger_missing import RANGES_MAX
from app.domain.insight.ledger_window import Ledger


class LedgerSumsRead(Schema):
    """Counts of messages.

    The sum of `carried` to `resent` equals the sum of `delivered` to `missing`.
    """

    carried: int = Field(description="published before, and unfinished then")
    published: int
    resent: int = Field(description="sent to this subscription again")
    delivered: int
    discarded: int
    filtered: int = Field(description="not wanted, by its filters")
    cancelled: int = Field(description="of cancelled retransmissions, at most")
    unfinished: int = Field(description="at the end")
    missing: int = Field(description="passed, and neither delivered nor discarded nor filtered")
    gone: int = Field(description="of all these, those in neither log nor archive")
    recorded: int = Field(description="discards that there is a record of")


class LedgerPartitionRead(LedgerSumsRead):
    """Counts of messages of one partition.

    The sum of `carried` to `resent` equals the sum of `delivered` to `missing`.
    """

    partition: int
    doubts: list[str]


class LedgerRangeRead(Schema):
    """Offsets of a partition, in the form of a retransmission's `offsets`."""

    partition: int
    offset: int = Field(description="the first")
    to_offset: int = Field(description="before which it ends")


class LedgerReasonRead(Schema):
    """How many discards have this reason (variable parts masked) and status."""

    reason: str
    status: int | None = None
    messages: int


class LedgerEntryRead(Schema):
    """One entry: what happened to all messages since the end of the entry before."""

    number: int
    from_: str = Field(alias="from")
    to: str
    proved: bool = Field(description="whether nothing about it is doubtful")
    doubts: list[str]
    sums: LedgerSumsRead
    partitions: list[LedgerPartitionRead]
    reasons: list[LedgerReasonRead] = Field(description="the most frequent")
    missing_among: list[LedgerRangeRead] = Field(
        description="ranges that were passed; the missing messages are among them"
    )
    missing_among_more: bool = Field(description=f"whether there are more than {RANGES_MAX} ranges")
    hash: str
    previous: str = Field(description="hash of the entry before it")
    key_id: str | None = Field(default=None, description="of the key that its hash is signed with")


class LedgerRead(Schema):
    """The sums of all entries that overlap a time span, and the newest of these entries."""

    from_: str = Field(alias="from", description="begin of the requested time")
    to: str
    covered_from: str | None = Field(
        default=None, description="begin of the first entry; `sums` count from here"
    )
    covered_to: str | None = Field(default=None, description="end of the last entry")
    proved: bool = Field(
        description="whether all of the time from `from` to `to` is covered, and nothing doubtful"
    )
    doubts: list[str] = Field(description="of all entries; NOT_COVERED: a gap")
    sums: LedgerSumsRead
    entry_count: int = Field(description="number of entries, whatever `limit`")
    entries: list[LedgerEntryRead]


class LedgerCheckRead(Schema):
    """Whether all entries are unchanged since they were written."""

    intact: bool
    entries: int = Field(description="number of unchanged entries, from the oldest on")
    signed: bool = Field(description="whether all are signed, with keys of the service")
    signed_from: int | None = Field(
        default=None,
        description="number of the first signed entry. All later entries are signed, and nothing"
        " before it was changed since it was signed",
    )
    hash: str | None = Field(default=None, description="hash of the last unchanged entry: keep it")
    anchored: int | None = Field(
        default=None,
        description="number of the newest entry that is anchored in the log; nobody can remove"
        " entries up to this one without being found",
    )
    broken: int | None = Field(default=None, description="number of the first bad entry")
    reason: str | None = Field(default=None, description="what is wrong with this entry")


class LedgerLinkRead(Schema):
    """One entry exactly as it is stored, for readers who verify ledgers themselves."""

    number: int
    content: str = Field(description="the text of the entry, JSON")
    previous: str = Field(description="hash of the entry before it")
    hash: str = Field(description="SHA-256 of `previous`, a line feed and `content`, in hex")
    key_id: str | None = Field(default=None, description="id of the key of the signature")
    signature: str | None = Field(
        default=None, description="Ed25519 signature of the text of `hash`, in hex"
    )


class LedgerKeyRead(Schema):
    """A public key that verifies signatures of ledgers."""

    key_id: str
    public_key: str = Field(description="Ed25519, in PEM")


def links_read(links: Iterable[LedgerLink]) -> list[JsonObject]:
    """Return the response to an export of a ledger: its entries, linked by their hashes."""
    return [LedgerLinkRead(**link._asdict()).answered() for link in links]


def keys_read(keys: Mapping[str, str]) -> list[JsonObject]:
    """Return the response for public keys."""
    return [LedgerKeyRead(key_id=key_id, public_key=pem).answered() for key_id, pem in keys.items()]


def ledger_read(ledger: Ledger) -> LedgerRead:
    """Return the response for a ledger."""
    requested, covered = ledger.requested, ledger.covered
    # The model gets one mapping, because its field `from` cannot be a keyword argument in Python.
    return LedgerRead.model_validate(
        {
            "from": requested.since.isoformat(),
            "to": requested.until.isoformat(),
            "coveredFrom": None if covered is None else covered.since.isoformat(),
            "coveredTo": None if covered is None else covered.until.isoformat(),
            "proved": ledger.is_proved,
            "doubts": [each.value for each in ledger.doubts],
            "sums": _sums(ledger.sums),
            "entryCount": ledger.count,
            "entries": [_entry(each) for each in ledger.entries],
        }
    )


def check_read(check: Check) -> LedgerCheckRead:
    """Return the response for a check."""
    return LedgerCheckRead(
        intact=check.broken is None,
        entries=check.entries,
        signed=check.is_signed,
        signed_from=check.signed_from,
        hash=check.hash,
        anchored=check.anchored,
        broken=check.broken,
        reason=check.reason,
    )


def known_of(number: int | None, hash_: str | None) -> KnownHash | None:
    """Parse the query parameters `number` and `hash`, which name an entry that the caller knows.

    Raises:
        ValidationFailedError: The parameters are not valid.
    """
    if number is None and hash_ is None:
        return None
    if number is None or hash_ is None:
        raise ValidationFailedError.of(
            "hash" if hash_ is None else "number", "number and hash belong together"
        )
    return KnownHash(number=number, hash=hash_.lower())


def _entry(entry: LedgerEntry) -> JsonObject:
    doubts = [each.value for each in entry.doubts]
    return {
        "number": entry.number,
        "from": entry.since.isoformat(),
        "to": entry.until.isoformat(),
        "proved": not doubts,
        "doubts": doubts,
        "sums": _sums(entry.sums),
        "partitions": [_partition(each) for each in entry.partitions],
        "reasons": [
            {"reason": reason, "status": status, "messages": messages}
            for reason, status, messages in entry.reasons
        ],
        "missingAmong": [
            {"partition": index, "offset": low, "toOffset": high}
            for index, low, high in entry.among[:RANGES_MAX]
        ],
        "missingAmongMore": len(entry.among) > RANGES_MAX,
        "hash": entry.hash,
        "previous": entry.previous,
        "keyId": entry.key_id,
    }


def _partition(each: PartitionSums) -> JsonObject:
    doubts = sorted(doubt.value for doubt in each.doubts)
    return {"partition": each.partition, "doubts": doubts, **_sums(each.sums)}


def _sums(sums: Sums) -> JsonObject:
    return asdict(sums)

"""The chain of ledger entries: each hash covers the entry's text and the hash of the entry before.

To change an entry, one must also change the hashes of all later entries. `checked` detects a change
in two cases: somebody has kept the hash of a later entry, or hashes are signed
(`app.domain.insight.ledger_signing`).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from app.domain.insight.ledger import (
    Doubt,
    Finding,
    LedgerEntry,
    LedgerRequest,
    Mark,
    PartitionSums,
    Sums,
    judged,
    reasons_of,
)
from app.domain.insight.ledger_missing import missing_among
from app.domain.insight.ledger_signing import NO_KEYS, Verifiers

# The first entry of a ledger has no entry before it. This value is stored in the place of the
# previous entry's hash.
NOTHING: Final = "0" * 64
_VERSION: Final = 1


class LedgerLink(NamedTuple):
    """A stored entry as text, as a link of the chain.

    `content` is the text of the entry, and `previous` the hash of the previous entry. `signature`
    is the signature of the entry's hash by the key `key_id`. Both are None if the entry is not
    signed.
    """

    number: int
    content: str
    previous: str
    hash: str
    key_id: str | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of a check of the chain.

    Attributes:
        entries: How many entries are unchanged.
        first: The number of the first unchanged entry.
        last: The number of the last unchanged entry.
        hash: The hash of the last unchanged entry.
        broken: The number of the first entry that was changed or is missing; None if there is none.
        reason: What is wrong with the entry `broken`.
        unsigned: How many entries have no signature that can be checked. They are the oldest ones.
        signed_from: The number of the first entry with a signature. This signature also proves all
            earlier entries.
        anchored: The number of the newest entry whose hash is the same in the log
            (`app.domain.insight.ledger_anchors`).
    """

    entries: int = 0
    first: int | None = None
    last: int = 0
    hash: str | None = None
    broken: int | None = None
    reason: str | None = None
    unsigned: int = 0
    signed_from: int | None = None
    anchored: int | None = None

    @property
    def is_signed(self) -> bool:
        """Whether there is an entry, and all entries are unchanged and signed."""
        return self.entries > 0 and not self.unsigned and self.broken is None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHash:
    """The number of an entry, and a copy of its hash that somebody has kept."""

    number: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence with which a ledger is checked, in addition to the hashes of its entries.

    Attributes:
        subscription_id: The subscription of the ledger.
        keys: The keys with which signatures are checked. If there is any key, some entry must be
            signed, and all entries after the first signed one.
        known: A copy of one entry's hash that somebody has kept; None if there is none.
    """

    subscription_id: str
    keys: Verifiers = field(default_factory=lambda: NO_KEYS)
    known: KnownHash | None = None


_NONE: Final = Check()


def hash_of(previous: str, content: str) -> str:
    """Return the hash of an entry with the text `content`, after the entry with hash `previous`."""
    return hashlib.sha256(f"{previous}\n{content}".encode()).hexdigest()


def written(subscription_id: str, request: LedgerRequest, finding: Finding) -> str:
    """Return the text of an entry."""
    parts = judged(request, finding)
    among = missing_among(request, parts)
    content = {
        "version": _VERSION,
        "subscriptionId": subscription_id,
        "number": request.number,
        "from": request.since.isoformat(),
        "to": request.until.isoformat(),
        "partitions": [_partition_fields(each) for each in parts],
        "reasons": [list(each) for each in reasons_of(finding.discards)],
        "closing": [_mark_fields(each) for each in request.closing],
        **({"among": among} if among else {}),
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def entry_of(link: LedgerLink) -> LedgerEntry:
    """Return the ledger entry whose text is in `link`."""
    content = json.loads(link.content)
    return LedgerEntry(
        number=content["number"],
        since=datetime.fromisoformat(content["from"]),
        until=datetime.fromisoformat(content["to"]),
        partitions=tuple(_partition_of(each) for each in content["partitions"]),
        reasons=tuple(
            (reason, status, messages) for reason, status, messages in content["reasons"]
        ),
        among=tuple((index, low, high) for index, low, high in content.get("among", ())),
        closing=tuple(_mark_of(each) for each in content["closing"]),
        hash=link.hash,
        previous=link.previous,
        key_id=link.key_id,
    )


def checked(links: Iterable[LedgerLink], evidence: Evidence, *, before: Check = _NONE) -> Check:
    """Check the chain of entries, oldest first, up to the first error.

    `before` is the result of the check so far. After the last entry, call `concluded`.
    """
    check = before
    for link in links:
        if check.broken is not None:
            break
        reason = _wrong(link, check, evidence) or _wrongly_signed(link, check, evidence.keys)
        if reason is not None:
            check = broken_at(check, link.number, reason)
        else:
            check = _followed(check, link, evidence.keys)
    return check


def concluded(check: Check, evidence: Evidence) -> Check:
    """Return the result of the check after the last entry.

    This finds an error if entries are missing, or if no entry is signed although there are keys.
    """
    if check.broken is not None:
        return check
    if evidence.keys and check.first is not None and check.signed_from is None:
        reason = "neither it nor an entry after it is signed with a known key"
        return broken_at(check, check.first, reason)
    known = evidence.known
    if known is not None and not (check.first or 1) <= known.number <= check.last:
        return broken_at(check, known.number, "it is not there any more")
    return check


def broken_at(check: Check, number: int, reason: str) -> Check:
    """Return the result of a check that found the entry `number` changed or missing."""
    return replace(check, broken=number, reason=reason)


def _followed(check: Check, link: LedgerLink, keys: Verifiers) -> Check:
    is_signed = link.key_id in keys
    signed_from = check.signed_from
    if is_signed and signed_from is None:
        signed_from = link.number
    return Check(
        entries=check.entries + 1,
        first=link.number if check.first is None else check.first,
        last=link.number,
        hash=link.hash,
        unsigned=check.unsigned + (not is_signed),
        signed_from=signed_from,
    )


def _wrong(link: LedgerLink, before: Check, evidence: Evidence) -> str | None:
    follows = (link.previous, link.number) == (before.hash, before.last + 1)
    if before.hash is not None and not follows:
        return "it does not follow the one before it"
    if link.number == 1 and link.previous != NOTHING:
        return "it is the first, and follows another"
    if link.hash != hash_of(link.previous, link.content):
        return "its hash is not that of its text"
    return _of_another(link, evidence)


def _of_another(link: LedgerLink, evidence: Evidence) -> str | None:
    content, known = json.loads(link.content), evidence.known
    if content.get("number") != link.number:
        return "its text is of another number"
    if content.get("subscriptionId") != evidence.subscription_id:
        return "its text is of another subscription"
    if known is not None and known.number == link.number and known.hash != link.hash:
        return "its hash is not the one that was kept"
    return None


def _wrongly_signed(link: LedgerLink, before: Check, keys: Verifiers) -> str | None:
    """Return what is wrong with the entry's signature; None if nothing is wrong.

    If an earlier entry has a valid signature, an entry without a signature is wrong too.
    """
    verify = keys.get(link.key_id or "")
    if verify is not None:
        is_ours = verify(link.hash, link.signature or "")
        return None if is_ours else "its signature is not that of its hash"
    if before.signed_from is None:
        return None
    if link.key_id is None:
        return "it is not signed, and the one before it is"
    return f"the key {link.key_id} that it is said to be signed with is not known"


def _partition_fields(each: PartitionSums) -> Mapping[str, Any]:
    doubts = sorted(doubt.value for doubt in each.doubts)
    return {"partition": each.partition, "doubts": doubts, **asdict(each.sums)}


def _partition_of(fields: Mapping[str, Any]) -> PartitionSums:
    sums = {name: value for name, value in fields.items() if name not in {"partition", "doubts"}}
    doubts = frozenset(Doubt(each) for each in fields["doubts"])
    return PartitionSums(partition=fields["partition"], sums=Sums(**sums), doubts=doubts)


def _mark_fields(mark: Mark) -> Mapping[str, Any]:
    return asdict(mark)


def _mark_of(fields: Mapping[str, Any]) -> Mark:
    finished: Sequence[Sequence[int]] = fields["finished"]
    return Mark(**{**fields, "finished": tuple((low, high) for low, high in finished)})

"""Ledger entries as a chain of texts: each hash covers an entry's text and the hash before it.

Whoever changes an entry must change all later entries too. `checked` detects this if somebody has
stored the hash of a later entry. It also detects this if hashes are signed
(`app.domain.insight.ledger_signing`): the keys are not in the database.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
from app.domain.insight.ledger_signing import NO_KEYS, Keys, is_signed_by

# The hash that stands before the first entry.
NOTHING: Final = "0" * 64
_VERSION: Final = 1


class LedgerLink(NamedTuple):
    """A stored entry. `signature` is the signature of its hash, by the key `key_id`."""

    number: int
    content: str
    previous: str
    hash: str
    key_id: str | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of a check: how many entries are unchanged.

    `broken` is the number of the first changed entry, and `reason` says what is wrong. `hash` is
    the hash of the last entry. The oldest `unsigned` entries have no signature that can be checked.
    Entries from the number `signed_from` on have one, which also proves all entries before.
    """

    entries: int = 0
    hash: str | None = None
    broken: int | None = None
    reason: str | None = None
    unsigned: int = 0
    signed_from: int | None = None

    @property
    def is_signed(self) -> bool:
        """Whether there are entries, and all are unchanged and signed."""
        return self.entries > 0 and not self.unsigned and self.broken is None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHash:
    """A stored hash, with the number of its entry."""

    number: int
    hash: str


_NONE: Final = Check()


def hash_of(previous: str, content: str) -> str:
    """Return the hash of an entry."""
    return hashlib.sha256(f"{previous}\n{content}".encode()).hexdigest()


def written(subscription_id: str, request: LedgerRequest, finding: Finding) -> str:
    """Return the text of an entry."""
    parts = judged(request, finding)
    among = missing_among(request, parts)
    said = {
        "version": _VERSION,
        "subscriptionId": subscription_id,
        "number": request.number,
        "from": request.since.isoformat(),
        "to": request.until.isoformat(),
        "partitions": [_partition_said(each) for each in parts],
        "reasons": [list(each) for each in reasons_of(finding.discards)],
        "closing": [_mark_said(each) for each in request.closing],
        **({"among": among} if among else {}),
    }
    return json.dumps(said, sort_keys=True, separators=(",", ":"))


def entry_of(link: LedgerLink) -> LedgerEntry:
    """Return the entry that a link contains."""
    said = json.loads(link.content)
    return LedgerEntry(
        number=said["number"],
        since=datetime.fromisoformat(said["from"]),
        until=datetime.fromisoformat(said["to"]),
        partitions=tuple(_partition_of(each) for each in said["partitions"]),
        reasons=tuple((reason, status, messages) for reason, status, messages in said["reasons"]),
        among=tuple((index, low, high) for index, low, high in said.get("among", ())),
        closing=tuple(_mark_of(each) for each in said["closing"]),
        hash=link.hash,
        previous=link.previous,
        key_id=link.key_id,
    )


def checked(
    links: Iterable[LedgerLink],
    known: KnownHash | None = None,
    *,
    keys: Keys = NO_KEYS,
    before: Check = _NONE,
) -> Check:
    """Check the chain from the oldest entry on, after `before`, up to the first error."""
    check = before
    for link in links:
        if check.broken is not None:
            break
        reason = _wrong(link, check, known) or _wrongly_signed(link, check, keys)
        if reason is not None:
            check = replace(check, broken=link.number, reason=reason)
        else:
            check = _followed(check, link, keys)
    return check


def _followed(check: Check, link: LedgerLink, keys: Keys) -> Check:
    is_signed = link.key_id in keys
    signed_from = check.signed_from
    if is_signed and signed_from is None:
        signed_from = link.number
    return Check(
        entries=check.entries + 1,
        hash=link.hash,
        unsigned=check.unsigned + (not is_signed),
        signed_from=signed_from,
    )


def _wrong(link: LedgerLink, before: Check, known: KnownHash | None) -> str | None:
    if before.hash is not None and link.previous != before.hash:
        return "it does not follow the one before it"
    if link.number == 1 and link.previous != NOTHING:
        return "it is the first, and follows another"
    if link.hash != hash_of(link.previous, link.content):
        return "its hash is not that of its text"
    if json.loads(link.content)["number"] != link.number:
        return "its text is of another number"
    if known is not None and known.number == link.number and known.hash != link.hash:
        return "its hash is not the one that was kept"
    return None


def _wrongly_signed(link: LedgerLink, before: Check, keys: Keys) -> str | None:
    """Return an error if a signature is missing after an entry that has a valid one."""
    key = keys.get(link.key_id or "")
    if key is not None:
        is_ours = is_signed_by(key, link.hash, link.signature or "")
        return None if is_ours else "its signature is not that of its hash"
    if before.signed_from is None:
        return None
    if link.key_id is None:
        return "it is not signed, and the one before it is"
    return f"the key {link.key_id} that it is said to be signed with is none of ours"


def _partition_said(each: PartitionSums) -> Mapping[str, Any]:
    doubts = sorted(doubt.value for doubt in each.doubts)
    return {"partition": each.partition, "doubts": doubts, **asdict(each.sums)}


def _partition_of(said: Mapping[str, Any]) -> PartitionSums:
    sums = {name: value for name, value in said.items() if name not in {"partition", "doubts"}}
    doubts = frozenset(Doubt(each) for each in said["doubts"])
    return PartitionSums(partition=said["partition"], sums=Sums(**sums), doubts=doubts)


def _mark_said(mark: Mark) -> Mapping[str, Any]:
    return asdict(mark)


def _mark_of(said: Mapping[str, Any]) -> Mark:
    finished: Sequence[Sequence[int]] = said["finished"]
    return Mark(**{**said, "finished": tuple((low, high) for low, high in finished)})

"""Anchors of ledgers: copies of the hash of each new entry, which are kept in the log.

Somebody who can write into the database can delete the last entries of a ledger. If entries are not
signed, this person can even replace all entries. A comparison with the anchors in the log shows
both changes.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from app.domain.insight.ledger_chain import Check, broken_at
from app.domain.insight.ledger_signing import Signature, Verifiers


class LedgerAnchor(NamedTuple):
    """The number and hash of a ledger entry, as they are stored in the log.

    `signature` is the signature of the anchor by the key `key_id`. Both are None if the anchor is
    not signed.
    """

    subscription_id: str
    number: int
    hash: str
    key_id: str | None = None
    signature: str | None = None

    @property
    def signed(self) -> str:
        """The text that the signature of the anchor is made from."""
        return f"anchor {self.subscription_id} {self.number} {self.hash}"

    def signed_with(self, signature: Signature) -> "LedgerAnchor":
        """Return the anchor with its signature."""
        return self._replace(key_id=signature.key_id, signature=signature.value)

    def text(self) -> bytes:
        """Return the anchor as the body of a log record."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


def anchor_of(text: bytes) -> LedgerAnchor | None:
    """Return the anchor in the body of a log record; None if the body is not an anchor."""
    try:
        fields = json.loads(text)
        return LedgerAnchor(**fields) if isinstance(fields["number"], int) else None
    except (ValueError, TypeError, KeyError):
        return None


def anchored(
    check: Check, hashes: Mapping[int, str], anchors: Iterable[LedgerAnchor], *, keys: Verifiers
) -> Check:
    """Compare the hashes of ledger entries with the anchors in the log. Return the new result.

    Anchors of entries before the first existing entry are ignored, because old entries are deleted.

    Args:
        check: The result of the check so far, without an error.
        hashes: The hash of each entry, by its number.
        anchors: The anchors in the log.
        keys: The keys that verify signatures. If there is any key, only anchors with a valid
            signature are used, because other programs may write into the log.
    """
    wrong: dict[int, str] = {}
    newest = None
    for anchor in anchors:
        number = anchor.number
        if number < (check.first or 1) or not _is_ours(anchor, keys):
            continue
        if number > check.last:
            wrong[number] = "it is anchored in the log, and is not there any more"
        elif hashes.get(number) != anchor.hash:
            wrong[number] = "its hash is not the one that is anchored in the log"
        else:
            newest = max(number, newest or 0)
    check = replace(check, anchored=newest)
    return broken_at(check, min(wrong), wrong[min(wrong)]) if wrong else check


def _is_ours(anchor: LedgerAnchor, keys: Verifiers) -> bool:
    if not keys:
        return True
    verify = keys.get(anchor.key_id or "")
    return verify is not None and verify(anchor.signed, anchor.signature or "")

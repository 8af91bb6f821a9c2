"""Exported ledgers, verified by somebody who has only the file and the public key."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.cli.errors import CliError
from app.cli.ledger_files import verified
from app.domain.insight.ledger import Finding, LedgerRequest
from app.domain.insight.ledger_chain import NOTHING, KnownHash, hash_of, written
from app.ledger_keys import LedgerKeys

NOON = datetime(2026, 1, 30, 12, tzinfo=UTC)
OURS, THEIRS = LedgerKeys({"a": b"a" * 32}), LedgerKeys({"b": b"b" * 32})


def exported(length: int, keys: LedgerKeys = OURS) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for number in range(1, length + 1):
        since = NOON + timedelta(days=number)
        until = since + timedelta(days=1)
        request = LedgerRequest(number=number, since=since, until=until, opening=(), closing=())
        content = written("s-1", request, Finding())
        previous = entries[-1]["hash"] if entries else NOTHING
        hash_ = hash_of(previous, content)
        key_id, signature = keys.signature_of(hash_)
        entries.append({
            "number": number, "content": content, "previous": previous, "hash": hash_,
            "keyId": key_id, "signature": signature,
        })  # fmt: skip
    return entries


def files(
    place: Path, entries: Sequence[Mapping[str, Any]], *keys: LedgerKeys
) -> tuple[Path, Path]:
    ledger, public = place / "ledger.jsonl", place / "keys.pem"
    ledger.write_text("".join(f"{json.dumps(each)}\n" for each in entries))
    public.write_text("".join(pem for each in keys for pem in each.public.values()))
    return ledger, public


def test_a_ledger_is_verified_by_any_of_the_public_keys(tmp_path: Path) -> None:
    entries = exported(3)
    ledger, public = files(tmp_path, entries, THEIRS, OURS)
    known = KnownHash(number=2, hash=entries[1]["hash"])
    check = verified(ledger, public_keys=public, known=known)
    assert (check.broken, check.entries, check.is_signed) == (None, 3, True)
    assert check.hash == entries[2]["hash"]


def test_what_was_changed_removed_or_signed_by_others_is_named(tmp_path: Path) -> None:
    changed = exported(3)
    changed[1]["content"] = changed[1]["content"].replace("2026", "2027")
    kept = KnownHash(number=3, hash=exported(3)[2]["hash"])
    for entries, known, broken in (
        (changed, None, 2),
        (exported(2), kept, 3),
        (exported(3, THEIRS), None, 1),
        (exported(3, LedgerKeys()), None, 1),
        ([*exported(2), exported(3, THEIRS)[2]], None, 3),
    ):
        ledger, public = files(tmp_path, entries, OURS)
        assert verified(ledger, public_keys=public, known=known).broken == broken


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x", "line 1: it is no JSON"),
        ("[]", "no JSON object"),
        ('{"number": "1"}', "number"),
        ('{"number": 1, "content": "x", "previous": "", "hash": ""}', "content: it is no JSON"),
    ],
)
def test_a_file_that_is_no_export_is_refused(tmp_path: Path, line: str, said: str) -> None:
    ledger, public = files(tmp_path, [], OURS)
    ledger.write_text(line)
    with pytest.raises(CliError, match=said):
        verified(ledger, public_keys=public, known=None)


@pytest.mark.parametrize(
    "pem", ["", "no key", "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----"]
)
def test_a_file_without_a_public_key_is_refused(tmp_path: Path, pem: str) -> None:
    ledger, public = files(tmp_path, exported(1), OURS)
    public.write_text(pem)
    with pytest.raises(CliError, match=r"keys\.pem"):
        verified(ledger, public_keys=public, known=None)
    with pytest.raises(CliError, match="No such file"):
        verified(ledger, public_keys=tmp_path / "none", known=None)

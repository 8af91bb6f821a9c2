"""Verifies exported ledgers without the service."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from app.cli.errors import CliError
from app.domain.insight.ledger_chain import (
    Check,
    Evidence,
    KnownHash,
    LedgerLink,
    checked,
    concluded,
)
from app.domain.insight.ledger_signing import Verifiers
from app.ledger_keys import public_verifiers

# The fields of a line in an exported ledger, with their types. The fields in `_OPTIONAL` may be
# missing.
_FIELDS: Final = {"number": int, "content": str, "previous": str, "hash": str}
_OPTIONAL: Final = ("keyId", "signature")


def verified(file: Path, *, public_keys: Path, known: KnownHash | None) -> Check:
    """Check an exported ledger with the public keys in the PEM file `public_keys`.

    If `known` is given, the ledger must contain an entry with the number and the hash of `known`.

    Raises:
        CliError: A file cannot be read.
    """
    keys = _keys(public_keys)
    check = Check()
    evidence = Evidence(subscription_id="", keys=keys, known=known)
    for link in _links(file):
        if not check.entries:
            owner = json.loads(link.content).get("subscriptionId")
            evidence = Evidence(subscription_id=str(owner), keys=keys, known=known)
        check = checked([link], evidence, before=check)
        if check.broken is not None:
            break
    return concluded(check, evidence)


def _keys(file: Path) -> Verifiers:
    try:
        return public_verifiers(file.read_bytes())
    except OSError as exc:
        raise CliError(f"{file}: {exc.strerror}") from exc
    except ValueError as exc:
        raise CliError(f"{file}: {exc}") from exc


def _links(file: Path) -> Iterator[LedgerLink]:
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                yield _link(line, where=f"{file}, line {number}")
    except OSError as exc:
        raise CliError(f"{file}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise CliError(f"{file}: it is no UTF-8") from exc


def _link(line: str, *, where: str) -> LedgerLink:
    entry = _object(line, where=where)
    for name, kind in _FIELDS.items():
        if not isinstance(entry.get(name), kind):
            raise CliError(f"{where}: it is no entry of `angelia ledger export` ({name})")
    key_id, signature = (
        None if entry.get(each) is None else str(entry[each]) for each in _OPTIONAL
    )
    content = str(entry["content"])
    # The content of an entry must be JSON. This is checked here, because later code parses the
    # content before it checks the hash.
    _object(content, where=f"{where}, content")
    return LedgerLink(entry["number"], content, entry["previous"], entry["hash"], key_id, signature)


def _object(text: str, *, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise CliError(f"{where}: it is no JSON") from exc
    if not isinstance(value, dict):
        raise CliError(f"{where}: it is no JSON object")
    return value

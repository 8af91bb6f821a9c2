"""Secrets in the files of the project, and in all that its history ever had."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from tests.architecture.tree import ROOT
from tests.supply.found import Found

# What secrets look like, each form by its makers.
FORMS: Final[Mapping[str, str]] = {
    "a private key": r"PRIVATE KEY-----(?:\\n|\s|\+)+[A-Za-z0-9+/]{40}",
    "a key of Amazon": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a token of GitHub": r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60})",
    "a token of GitLab": r"\bglpat-[A-Za-z0-9_-]{20}",
    "a token of Slack": r"\bxox[abprs]-[A-Za-z0-9-]{10}|hooks\.slack\.com/services/T\w+/B\w+/\w+",
    "a key of Google": r"\bAIza[0-9A-Za-z_-]{35}\b",
    "a key of Stripe": r"\b[rs]k_live_[0-9A-Za-z]{24}",
    "a token of PyPI": r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50}",
    "a token of npm": r"\bnpm_[A-Za-z0-9]{36}\b",
    "a signed token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "an API key of ours": r"\bang_[0-9a-f]{12}_[A-Za-z0-9_-]{43}",
    "a secret for signatures": r"\bwhsec_[A-Za-z0-9+/]{32,}={0,2}",
    "a key for secrets": r"ANGELIA_SECRET_KEY\W{1,4}[A-Za-z0-9+/]{43}=",
    "a password in a URL": r"\b[a-z][a-z+]+://[^\s/:@\"'`]+:[^\s/:@\"'`{}<>$%]{16,}@",
}
# What looks like a secret and is none, by the digest that the audit prints, with the reason.
ALLOWED: Final[Mapping[str, str]] = {
    "96ad2ccd8146": "the example in the API's document, made up",
    "1a5d44a2dca1": "the key of the S3 in the tests, made up",
}

_ANY: Final = re.compile("|".join(f"({form})" for form in FORMS.values()))
_NAMES: Final = tuple(FORMS)

DIGEST_LENGTH: Final = 12


class Leak(NamedTuple):
    """Something that looks like a secret: its form, and a digest, as it is not to be shown."""

    form: str
    digest: str
    start: int


def leaks(text: str) -> Iterator[Leak]:
    """All that looks like a secret in a text."""
    for match in _ANY.finditer(text):
        assert match.lastindex is not None
        digest = sha256(match[0].encode()).hexdigest()[:DIGEST_LENGTH]
        yield Leak(_NAMES[match.lastindex - 1], digest, match.start())


def scanned() -> Found:
    """The files of the project, and each line that any commit of this branch added."""
    files = _git("ls-files", "-z").split("\0")[:-1]
    found: dict[str, str] = {}
    for path in files:
        text = (ROOT / path).read_bytes().decode(errors="replace")
        for leak in leaks(text):
            line = text.count("\n", 0, leak.start) + 1
            found.setdefault(leak.digest, f"{path}:{line}: {leak.form} ({leak.digest})")
    history = _git("log", "--patch", "--unified=0", "--no-color", "--format=commit %h")
    for leak in leaks(history):
        place = _place(history, leak.start)
        found.setdefault(leak.digest, f"{place}: {leak.form} ({leak.digest})")
    stale = [f"nothing looks like {each} any more" for each in ALLOWED.keys() - found.keys()]
    return Found(
        lines=[
            f"{len(files)} files, and {len(history) >> 20} MB of history",
            *(f"{found[each]} is none: {why}" for each, why in ALLOWED.items() if each in found),
        ],
        problems=[*(line for each, line in found.items() if each not in ALLOWED), *stale],
    )


def _place(history: str, at: int) -> str:
    """The commit and the file that a place in the history belongs to."""
    commit = history[history.rfind("\ncommit ", 0, at) :].split("\n", 2)[1].removeprefix("commit ")
    begun = history.rfind("\n+++ b/", 0, at)
    return f"commit {commit}, {history[begun + 7 : history.find(chr(10), begun + 1)]}"


def _git(*arguments: str) -> str:
    """What git says, whoever owns the checkout."""
    command = ("git", "-c", "safe.directory=*", "-C", str(ROOT), *arguments)
    ran = subprocess.run(command, capture_output=True, check=True)
    return ran.stdout.decode(errors="replace")

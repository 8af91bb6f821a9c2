"""Known weaknesses of what the locks pin, by pip-audit and the database of osv.dev."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.architecture.tree import ROOT
from tests.supply.found import Found
from tests.supply.locks import LOCKS

SERVICE: Final = "osv.dev"
TIMEOUT_S: Final = 15
# Weaknesses that do not concern us, by id, each with the reason.
ACCEPTED: Final[Mapping[str, str]] = {}

_WORDS_MAX: Final = 200


def known() -> Found:
    """The weaknesses of all locks; unchecked if the database did not answer."""
    lines: list[str] = []
    problems: list[str] = []
    for lock in LOCKS:
        ran = subprocess.run(_command(lock), cwd=ROOT, capture_output=True, text=True, check=False)
        report = _report(ran.stdout)
        if report is None:
            return Found(problems=problems, unchecked=unanswered(lock, ran.stderr))
        lines.append(f"{lock}: {len(report)} packages looked up at {SERVICE}")
        problems += [f"{lock}: {each}" for each in weak(report)]
    return Found(lines=lines, problems=problems)


def unanswered(lock: str, said: str) -> str:
    """Why nothing is known, from the last words of pip-audit."""
    last = [line.strip() for line in said.splitlines() if line.strip()][-1:] or ["it said nothing"]
    return f"{SERVICE} did not answer for {lock}, so no weakness is known: {last[0][:_WORDS_MAX]}"


def weak(report: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each weakness that pip-audit found and nobody has accepted."""
    for package in report:
        for each in package.get("vulns", ()):
            names = {each["id"], *each.get("aliases", ())}
            if not names & ACCEPTED.keys():
                mended = ", ".join(each.get("fix_versions", ())) or "no version"
                yield f"{package['name']} {package['version']} has {each['id']}; mended in {mended}"


def _command(lock: str) -> Sequence[str]:
    options = ("--vulnerability-service", "osv", "--timeout", str(TIMEOUT_S), "--format", "json")
    locked = ("--require-hashes", "--disable-pip", "--requirement", lock)
    return (sys.executable, "-m", "pip_audit", *options, "--progress-spinner", "off", *locked)


def _report(printed: str) -> Sequence[Mapping[str, Any]] | None:
    try:
        dependencies: Sequence[Mapping[str, Any]] = json.loads(printed)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    return dependencies

"""The bill of materials of what users install, beside that of the version before."""

import subprocess
from collections.abc import Mapping
from importlib import metadata

from tests.architecture.tree import ROOT
from tests.servers import previous
from tests.supply.found import Found
from tests.supply.locks import pinned

# The lock that `make sbom` describes.
SHIPPED = "requirements-spark.lock"


def compared(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """One line for each component that came, went, or has another version."""
    lines = [f"came: {name} {now[name]}" for name in sorted(now.keys() - before.keys())]
    lines += [f"went: {name} {before[name]}" for name in sorted(before.keys() - now.keys())]
    lines += [
        f"changed: {name} {before[name]} -> {now[name]}"
        for name in sorted(now.keys() & before.keys())
        if now[name] != before[name]
    ]
    return lines


def difference() -> Found:
    """What has come and gone since the version before; what came has its licence beside it."""
    shown = subprocess.run(
        ["git", "-C", str(ROOT), "show", f"{previous.COMMIT}:{SHIPPED}"],  # noqa: S607 - git from PATH
        capture_output=True,
        text=True,
        check=False,
    )
    if shown.returncode:
        return Found(unchecked=f"the history has no {previous.COMMIT[:12]}: {shown.stderr.strip()}")
    now = pinned((ROOT / SHIPPED).read_text())
    lines = compared(pinned(shown.stdout), now)
    named = [f"{each} ({_licence(each)})" if each.startswith("came") else each for each in lines]
    return Found(lines=[f"{len(now)} components, since {previous.COMMIT[:12]}:", *named])


def _licence(line: str) -> str:
    name = line.split(" ")[1]
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return "not installed here"
    classified = [
        each.rpartition(" :: ")[2]
        for each in found.get_all("Classifier") or ()
        if each.startswith("License")
    ]
    expressions = found.get_all("License-Expression") or ()
    return ", ".join(expressions) or ", ".join(classified) or "no licence is named"

"""The lock files of the project, their ages, and what they pin."""

import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from tests.architecture.tree import ROOT
from tests.supply.found import Found

LOCKS: Final = (
    "requirements.lock",
    "requirements-spark.lock",
    "requirements-dev.lock",
    "tests/fuzz/atheris.lock",
    "tests/servers/msk.lock",
    "tests/servers/s3.lock",
)
# Older versions miss mends of weaknesses that nobody has reported to us.
AGE_MAX: Final = timedelta(days=60)

_PIN: Final = re.compile(r"^([a-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE | re.IGNORECASE)


def pinned(lock: str) -> Mapping[str, str]:
    """The versions in the text of a lock, by package; several where Pythons differ."""
    found: dict[str, list[str]] = {}
    for name, version in _PIN.findall(lock):
        found.setdefault(name, []).append(version)
    return {name: ", ".join(versions) for name, versions in sorted(found.items())}


def aged(changed: Mapping[str, datetime], *, now: datetime) -> Found:
    """How old each lock is, by the time at which it was changed last; old ones are a problem."""
    ages = {lock: now - at for lock, at in changed.items()}
    return Found(
        lines=[f"{lock}: changed {age.days} days ago" for lock, age in ages.items()],
        problems=[
            f"{lock} is older than {AGE_MAX.days} days: make lock"
            for lock, age in ages.items()
            if age > AGE_MAX
        ],
    )


def ages() -> Found:
    """The ages of all locks, by the commits that changed them."""
    changed = {lock: _changed_at(ROOT, lock) for lock in LOCKS}
    return aged(changed, now=datetime.now(UTC))


def _changed_at(root: Path, path: str) -> datetime:
    """When a commit changed the file last; by the file system where there is no history."""
    said = subprocess.run(
        ["git", "-C", str(root), "log", "-1", "--format=%cI", "--", path],  # noqa: S607 - git from PATH
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    if said:
        return datetime.fromisoformat(said)
    return datetime.fromtimestamp((root / path).stat().st_mtime, UTC)

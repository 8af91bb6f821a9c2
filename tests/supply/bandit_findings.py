"""What bandit finds in product code: each finding has its reason beside it, or in the table here.

Ruff knows bandit's checks too, by S in place of B. So the reason of ruff's exception from a line is
that of bandit's finding. What ruff does not report stands in `EXPLAINED`.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.architecture.tree import ROOT
from tests.supply.found import Found

PRODUCT: Final = ("angelia_client", "app", "workers", "spark", "migrations")

# By the check and the path, or the beginning of the path.
EXPLAINED: Final[Mapping[tuple[str, str], str]] = {
    ("B105", "app/api/codes.py"): "a sentence about keys, for people",
    ("B105", "app/domain/secrets.py"): "the name of a mark on fields that are secret",
    ("B106", "app/log/kafka/credentials.py"): "no password, where none is needed",
    ("B404", "app/cli/commands/spark.py"): "starts `java -version`, without a shell",
    ("B404", "app/storage/embedded/"): "starts PostgreSQL's programs, without a shell",
}

_REASON: Final = re.compile(r"# noqa: (?P<codes>[A-Z0-9, ]+) - (?P<reason>.+)")


def findings() -> Found:
    """What bandit says of product code."""
    command = (sys.executable, "-m", "bandit", "--quiet", "--recursive", "--format", "json")
    ran = subprocess.run(
        (*command, *PRODUCT), cwd=ROOT, capture_output=True, text=True, check=False
    )
    try:
        report = json.loads(ran.stdout)
    except ValueError:
        return Found(unchecked=f"bandit broke: {ran.stderr.strip()[-200:]}")
    broken = [f"bandit could not read {each['filename']}" for each in report["errors"]]
    results = report["results"]
    open_ones = [*unexplained(results), *needless(results)]
    kinds = Counter(f"{each['test_id']} {each['test_name']}" for each in results)
    return Found(
        lines=[f"{kind}: {count}" for kind, count in sorted(kinds.items())],
        problems=[*broken, *open_ones],
    )


def unexplained(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each finding without a reason."""
    for each in results:
        path = each["filename"].removeprefix("./")
        if _in_table(each["test_id"], path) is None and not _beside(each, path):
            yield f"{path}:{each['line_number']}: {each['test_id']} {each['issue_text']}"


def needless(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each reason in the table that explains nothing any more."""
    used = {_in_table(each["test_id"], each["filename"].removeprefix("./")) for each in results}
    for entry in EXPLAINED.keys() - used:
        yield f"nothing is found of what the table explains: {' in '.join(entry)}"


def _in_table(check: str, path: str) -> tuple[str, str] | None:
    return next((each for each in EXPLAINED if each[0] == check and path.startswith(each[1])), None)


def _beside(finding: Mapping[str, Any], path: str) -> bool:
    """Whether a line of the finding has ruff's exception from the same check."""
    lines = (ROOT / path).read_text().splitlines()
    wanted = "S" + finding["test_id"].removeprefix("B")
    found = (_REASON.search(lines[number - 1]) for number in finding["line_range"])
    return any(each and wanted in re.split("[, ]+", each["codes"]) for each in found)

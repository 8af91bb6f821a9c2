"""What is installed: bounded, pinned, hashed, and from wherever the reader's machine gets it."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from app.cli.commands.spark import PACKAGES
from app.log.kafka.tokens.signed_tokens import PACKAGE
from tests.architecture.tree import ROOT, files

LOCKS: Final = ("requirements.lock", "requirements-spark.lock", "requirements-dev.lock")
PROJECT: Final[Mapping[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUN_TIME: Final[list[str]] = PROJECT["project"]["dependencies"]
SPARK: Final[list[str]] = PROJECT["project"]["optional-dependencies"]["spark"]
MSK: Final[list[str]] = PROJECT["project"]["optional-dependencies"]["msk"]
DEVELOPMENT: Final[list[str]] = PROJECT["dependency-groups"]["dev"]

# What only one machine, or one company's network, has. Written so as not to find itself.
_PRIVATE: Final = re.compile(
    r"/(?:home|Users|work|root)/[a-z]|[C-Z]:\\Users|"
    r"(?:index|find)-(?:url|links)\b|extra-index|"
    r"\b(?:pypi|files|artifactory|nexus|registry|repo\d*|mirror)\.(?:[a-z0-9-]+\.)*"
    r"(?:com|org|net|io|dev|internal|local|corp|lan)\b"
)


def pins(lock: str) -> dict[str, Version]:
    """The version of each package in that lock."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", (ROOT / lock).read_text(), re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in found}


@pytest.mark.parametrize("text", RUN_TIME + SPARK + MSK + DEVELOPMENT)
def test_every_requirement_has_a_lower_and_an_upper_bound(text: str) -> None:
    operators = {specifier.operator for specifier in Requirement(text).specifier}
    assert operators == {"=="} or ({">="} <= operators and operators & {"<", "<=", "~="})


@pytest.mark.parametrize(
    ("lock", "required"),
    [
        (LOCKS[0], RUN_TIME),
        (LOCKS[1], RUN_TIME + SPARK),
        (LOCKS[2], RUN_TIME + SPARK + DEVELOPMENT),
    ],
    ids=LOCKS,
)
def test_the_lock_satisfies_the_project(lock: str, required: list[str]) -> None:
    pinned = pins(lock)
    unmet = [
        text
        for text in required
        if (version := pinned.get(canonicalize_name(Requirement(text).name))) is None
        or version not in Requirement(text).specifier
    ]
    assert not unmet, "run: make lock"


def test_all_locks_pin_the_same_versions() -> None:
    assert pins(LOCKS[0]).items() <= pins(LOCKS[1]).items() <= pins(LOCKS[2]).items()


def test_the_runner_asks_for_the_packages_of_the_project() -> None:
    assert sorted(PACKAGES) == sorted(SPARK)


def test_the_signer_is_asked_for_and_tested_as_in_the_project() -> None:
    assert [PACKAGE] == MSK == (ROOT / "tests/servers/msk.in").read_text().splitlines()


def test_run_time_needs_no_development_tool() -> None:
    assert not {"pytest", "ruff", "mypy", "pyspark"} & pins(LOCKS[0]).keys()


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_is_hashed(lock: str) -> None:
    blocks = re.split(r"\n(?=[a-zA-Z0-9])", (ROOT / lock).read_text())
    assert not [block for block in blocks if "==" in block and "--hash=sha256:" not in block]


def test_no_file_names_a_private_host_or_a_developers_folder() -> None:
    assert not list(_private_places())


def _private_places() -> Iterator[str]:
    for path in files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # an image has no addresses
        for number, line in enumerate(text.splitlines(), 1):
            if _PRIVATE.search(line) and path.name != "test_packaging.py":
                yield f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"

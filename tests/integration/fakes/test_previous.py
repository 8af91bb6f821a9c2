"""The version before is the one that is named, or the tests say how to get it."""

import subprocess
from pathlib import Path

import pytest

from tests.servers.jars import MissingError
from tests.servers.previous import install
from tests.servers.warm import ROOT, THIS
from tests.servers.warm_parent import import_from


def git(folder: Path, *arguments: str) -> None:
    names = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *names, "-C", folder, *arguments], check=True)  # noqa: S607 - from PATH


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """One that has a history, but not ours."""
    git(tmp_path, "init", "--quiet", "origin")
    for message in ("one", "two"):
        git(tmp_path / "origin", "commit", "--quiet", "--allow-empty", "--message", message)
    return tmp_path / "origin"


def test_a_tree_without_history_has_this_version_alone(tmp_path: Path) -> None:
    assert install(tmp_path) == THIS


@pytest.mark.long  # needs git
def test_a_checkout_without_the_commit_names_the_line_that_fetches_it(
    checkout: Path, tmp_path: Path
) -> None:
    with pytest.raises(MissingError, match=r"need the commit \w+: git fetch origin \w{40}$"):
        install(checkout)
    git(tmp_path, "clone", "--quiet", "--depth=1", checkout.as_uri(), "shallow")
    with pytest.raises(MissingError, match=r"need the commit \w+: git fetch --unshallow$"):
        install(tmp_path / "shallow")


def test_code_of_another_version_than_the_one_that_is_to_run_is_found_out(tmp_path: Path) -> None:
    import_from(ROOT, ["app"])
    with pytest.raises(SystemExit, match=rf"app\S* is .*, and not in {tmp_path}"):
        import_from(tmp_path, ["app"])

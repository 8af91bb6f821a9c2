"""The audit sees what it is for, and says plainly what it could not check."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.architecture.tree import ROOT
from tests.supply.__main__ import INCOMPLETE, main
from tests.supply.bandit_findings import unexplained
from tests.supply.bills import compared
from tests.supply.found import BAD, GOOD, UNCHECKED, Found
from tests.supply.leaks import FORMS, leaks
from tests.supply.locks import AGE_MAX, LOCKS, aged, pinned
from tests.supply.weaknesses import unanswered, weak

NOW = datetime(2026, 11, 24, tzinfo=UTC)
# In two parts each, so that this file has no secret.
SECRETS = {
    "a private key": "-----BEGIN RSA PRIVATE " + "KEY-----\n" + "MIIE" * 16,
    "a key of Amazon": "AKIA" + "Q3EXAMPLE7ABCDE2",
    "a token of GitHub": "ghp_" + "a1B2" * 9,
    "a token of GitLab": "glpat-" + "a1B2" * 5,
    "a token of Slack": "xoxb-" + "123456789012",
    "a key of Google": "AIza" + "a1B2c" * 7,
    "a key of Stripe": "sk_live_" + "a1B2" * 6,
    "a token of PyPI": "pypi-AgEIcHlwaS5vcmc" + "a1B2c" * 10,
    "a token of npm": "npm_" + "a1B2" * 9,
    "a signed token": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".c2lnbmF0dXJl",
    "an API key of ours": "ang_" + "0123456789ab_" + "a" * 43,
    "a secret for signatures": "whsec_" + "a1B2" * 8,
    "a key for secrets": "ANGELIA_SECRET_KEY=" + "a1B2c3D" * 6 + "e=",
    "a password in a URL": "postgresql://angelia:" + "0123456789abcdef@db/angelia",
}


def a_finding(path: str, line: int, check: str) -> dict[str, Any]:
    return {
        "filename": path,
        "line_number": line,
        "line_range": [line],
        "test_id": check,
        "issue_text": "is not good",
    }


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_secret_is_seen(form: str) -> None:
    assert [each.form for each in leaks(f"x = '{SECRETS[form]}'\n")] == [form]


def test_a_secret_is_reported_without_being_shown() -> None:
    (leak,) = leaks(SECRETS["a token of npm"])
    assert SECRETS["a token of npm"] not in str(leak)


def test_usual_words_are_no_secrets() -> None:
    said = "postgresql://angelia:secret@db.example/angelia ANGELIA_SECRET_KEY=… npm_config_cache"
    assert not [*leaks(said)]


def test_a_lock_that_is_old_is_a_problem() -> None:
    changed = {"new.lock": NOW - timedelta(days=1), "old.lock": NOW - AGE_MAX - timedelta(days=1)}
    found = aged(changed, now=NOW)
    assert found.verdict == BAD
    assert [problem.split(" ")[0] for problem in found.problems] == ["old.lock"]


def test_every_lock_of_the_project_is_looked_at() -> None:
    own = {
        path.relative_to(ROOT).as_posix()
        for folder in (ROOT, *(ROOT / "tests").iterdir())
        for path in folder.glob("*.lock")
    }
    assert own == set(LOCKS)


def test_versions_are_read_from_a_lock() -> None:
    lock = (
        "numpy==2.4.6 ; python_full_version < '3.12' \\\n    --hash=sha256:00\n"
        "numpy==2.5.5 ; python_full_version >= '3.12' \\\n    --hash=sha256:00\n"
        "httpx==0.28.1 \\\n    --hash=sha256:00\n    # via angelia\n"
    )
    assert pinned(lock) == {"httpx": "0.28.1", "numpy": "2.4.6, 2.5.5"}


def test_what_came_went_and_changed_is_said() -> None:
    before, now = {"a": "1", "b": "1", "c": "1"}, {"b": "1", "c": "2", "d": "1"}
    assert compared(before, now) == ["came: d 1", "went: a 1", "changed: c 1 -> 2"]


def test_a_finding_without_a_reason_beside_it_is_reported() -> None:
    path = "app/domain/access/keys.py"
    lines = (ROOT / path).read_text().splitlines()
    explained = 1 + next(number for number, line in enumerate(lines) if "S105 - " in line)
    assert not [*unexplained([a_finding(path, explained, "B105")])]
    assert len([*unexplained([a_finding(path, explained, "B608")])]) == 1
    assert len([*unexplained([a_finding(path, 1, "B105")])]) == 1


def test_a_known_weakness_is_reported_with_the_version_that_mends_it() -> None:
    report = json.loads(
        '[{"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"],'
        ' "aliases": ["CVE-1"]}]}, {"name": "b", "version": "1", "vulns": []}]'
    )
    assert [*weak(report)] == ["a 1 has PYSEC-1; mended in 2"]


def test_a_database_that_does_not_answer_is_no_good_news() -> None:
    why = unanswered("a.lock", "INFO: x\nERROR:pip_audit: could not connect\n")
    assert "no weakness is known" in why
    assert "could not connect" in why
    assert Found(lines=["a.lock: …"], unchecked=why).verdict == UNCHECKED


def test_an_audit_without_a_check_does_not_end_as_a_good_one() -> None:
    assert main(["--only", "weaknesses", "--offline"]) == INCOMPLETE
    assert Found().verdict == GOOD

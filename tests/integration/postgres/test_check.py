"""`angelia check` on a server of a company: one line for what is not as it must be."""

import json
from collections.abc import Mapping
from contextlib import suppress

import pytest

from app.cli.commands.check import check
from app.cli.errors import CliError
from tests.servers.debian_postgres import USER, DebianPostgres


def problems(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> Mapping[str, str]:
    """What the check says of each part."""
    monkeypatch.setenv("ANGELIA_DATABASE_URL", url)
    # The exit code; what is asked here is what it says.
    with suppress(CliError):
        check(as_json=True)
    parts = json.loads(capsys.readouterr().out)["parts"]
    return {part["name"]: part["problem"] for part in parts}


def test_a_pooler_is_told_that_breaks_no_connection_and_all_notices(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    debian_postgres: DebianPostgres,
    debian_database: str,
) -> None:
    with debian_postgres.pgbouncer(ignored="options") as port:
        pooled = f"postgresql://{USER}@127.0.0.1:{port}/{debian_database}"
        said = problems(monkeypatch, capsys, pooled)
    assert said["database"] == ""
    assert "set ANGELIA_DATABASE_DIRECT_URL, too" in said["pooler"]
    itself = problems(monkeypatch, capsys, debian_postgres.verified(debian_database))
    assert (itself["database"], "pooler" in itself) == ("", False)


def test_rights_and_a_database_that_are_missing_are_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    debian_postgres: DebianPostgres,
    debian_database: str,
) -> None:
    reader = debian_postgres.url(debian_database).replace(f"//{USER}:", "//reader:")
    said = problems(monkeypatch, capsys, reader)
    assert "permission denied for table alembic_version" in said["migrations"]
    missing = problems(monkeypatch, capsys, debian_postgres.url("nowhere"))
    assert "has no database nowhere: check ANGELIA_DATABASE_URL" in missing["database"]

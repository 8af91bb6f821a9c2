import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.cli.commands.check import check
from app.cli.errors import CliError
from app.cli.settings import api_url, changed, settings_with
from app.config import Settings
from app.domain.errors import StorageUnavailableError
from app.storage.embedded.configured import configured_url


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"ANGELIA_{name}".upper(), raising=False)


def test_a_child_reads_the_settings_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = changed(
        settings_with(port=1234, home=Path("/somewhere")),
        database_url=SecretStr("postgresql://user:secret@host/name"),
    )
    for name, text in parent.environment().items():
        monkeypatch.setenv(name, text)
    assert Settings() == parent


def test_a_setting_that_was_taken_back_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANGELIA_KAFKA_BOOTSTRAP", "kafka:9092")
    environment = changed(settings_with(), kafka_bootstrap=None).environment()
    assert "ANGELIA_KAFKA_BOOTSTRAP" not in environment


def test_a_child_keeps_the_rest_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG_OF_TESTS", "C")
    assert settings_with().environment()["LANG_OF_TESTS"] == "C"


def test_a_flag_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANGELIA_PORT", "1111")
    assert settings_with(port=2222).port == 2222
    assert settings_with(port=None).port == 1111


def test_a_change_keeps_what_else_was_set() -> None:
    settings = changed(settings_with(port=1, namespace="n"), port=2)
    assert (settings.port, settings.namespace) == (2, "n")


def test_a_changed_database_is_not_the_embedded_one() -> None:
    settings = settings_with()
    assert settings.embedded_database
    with_one = changed(settings, database_url=SecretStr("postgresql://host/name"))
    assert not with_one.embedded_database


def test_a_setting_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANGELIA_PORT", "many")
    with pytest.raises(CliError) as caught:
        settings_with()
    assert [problem.path for problem in caught.value.details] == ["ANGELIA_PORT"]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8090"),
        ("0.0.0.0", "http://127.0.0.1:8090"),  # noqa: S104 - nothing binds here
        ("::1", "http://[::1]:8090"),
        ("::", "http://[::1]:8090"),
        ("api.internal", "http://api.internal:8090"),
    ],
)
def test_the_api_is_looked_for_where_it_listens(host: str, url: str) -> None:
    assert api_url(settings_with(host=host)) == url


def test_a_check_shows_no_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Nothing answers at port 1: the check fails, and says where it looked.
    monkeypatch.setenv("ANGELIA_DATABASE_URL", "postgresql://joe:hush@127.0.0.1:1/shop?password=x")
    with pytest.raises(CliError, match="database, migrations, message log"):
        check(as_json=True)
    written = capsys.readouterr().out
    assert "hush" not in written
    assert "password" not in written
    settings = {each["name"]: each for each in json.loads(written)["settings"]}
    assert settings["ANGELIA_DATABASE_URL"] == {
        "name": "ANGELIA_DATABASE_URL",
        "value": "postgresql://joe:*****@127.0.0.1:1/shop",
        "from": "environment",
    }
    assert settings["ANGELIA_PORT"]["from"] == "default"
    assert settings["ANGELIA_HERMES_METRICS"]["value"] == "false"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://angelia:2024?x@127.0.0.1:1/angelia",
        "postgresql://angelia:2024#x@127.0.0.1:1/angelia",
        "postgresql://angelia:2024[x@127.0.0.1:1/angelia",
    ],
)
def test_a_check_shows_no_part_of_a_password_with_separators(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    monkeypatch.setenv("ANGELIA_DATABASE_URL", url)
    with pytest.raises(CliError):
        check(as_json=True)
    assert "2024" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"ANGELIA_DATABASE_URL": ""}, "ANGELIA_DATABASE_URL: .* is not of the form postgresql:"),
        (
            {"ANGELIA_DATABASE_URL": "postgresql://joe:2024/x@db.test/shop"},
            r"ANGELIA_DATABASE_URL: ((?!2024).)* is not of the form postgresql:((?!2024).)*$",
        ),
        (
            {"ANGELIA_DATABASE_URL": "postgresql://joe@db.test:99999/shop"},
            "ANGELIA_DATABASE_URL: .* port of the database must be 1 to 65535",
        ),
        (
            {"ANGELIA_DATABASE_URL": "postgresql://joe@a.test:5432,b.test:0/shop"},
            "ANGELIA_DATABASE_URL: .* port of the database must be 1 to 65535",
        ),
        (
            {
                "ANGELIA_DATABASE_URL": "postgresql://joe@db.test/shop",
                "ANGELIA_DATABASE_DIRECT_URL": "mysql://db.test/shop",
            },
            "ANGELIA_DATABASE_DIRECT_URL: .* must be PostgreSQL .*, not mysql",
        ),
    ],
)
def test_a_url_that_is_not_of_postgresql_is_refused_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], told: str
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(StorageUnavailableError, match=told):
        configured_url(settings_with())


def test_a_check_says_where_acknowledged_messages_can_be_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANGELIA_DATABASE_URL", "postgresql://joe:hush@127.0.0.1:1/shop")
    monkeypatch.setenv("ANGELIA_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    with pytest.raises(CliError, match=r"database, migrations, message log$"):
        check(as_json=True)
    parts = json.loads(capsys.readouterr().out)["parts"]
    said = [each["problem"] for each in parts if each["name"] == "durability"]
    assert said[0].startswith("ANGELIA_REPLICATION_FACTOR is 1")
    assert said[1].startswith("which topics there are is not known")
    assert said[2].startswith("how many replicas topics have is not known")


def test_networks_are_read_from_a_list_with_commas_and_handed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANGELIA_ALLOW_PRIVATE_ENDPOINTS", "10.0.0.0/8, ::1/128")
    settings = settings_with()
    assert [str(each) for each in settings.egress.allowed] == ["10.0.0.0/8", "::1/128"]
    handed_on = settings.environment()["ANGELIA_ALLOW_PRIVATE_ENDPOINTS"]
    assert handed_on == "10.0.0.0/8,::1/128"


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_a_file_without_authorities_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "authority.pem"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("ANGELIA_CA_FILE", str(path))
    with pytest.raises(CliError) as caught:
        settings_with()
    assert {problem.path for problem in caught.value.details} == {"ANGELIA_CA_FILE"}


@pytest.mark.parametrize(
    ("variables", "allowed"),
    [
        ({}, ["127.0.0.0/8", "::1/128"]),
        ({"ANGELIA_DATABASE_URL": "postgresql://db.test/a"}, []),
        ({"ANGELIA_ALLOW_PRIVATE_ENDPOINTS": ""}, []),
    ],
)
def test_this_machine_may_be_delivered_to_where_the_database_is_embedded(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], allowed: list[str]
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert [str(each) for each in settings_with().egress.allowed] == allowed


def test_what_is_no_network_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANGELIA_ALLOW_PRIVATE_ENDPOINTS", "10.0.0.0/8,office")
    with pytest.raises(CliError) as caught:
        settings_with()
    assert {problem.path for problem in caught.value.details} == {"ANGELIA_ALLOW_PRIVATE_ENDPOINTS"}


def test_a_proxy_is_read_shown_and_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANGELIA_EGRESS_PROXY", "http://joe:hush@proxy.test:3128")
    monkeypatch.setenv("ANGELIA_EGRESS_DIRECT", "10.0.0.0/8")
    settings = settings_with()
    assert settings.proxy is not None
    assert (settings.proxy.password, str(settings.proxy.direct[0])) == ("hush", "10.0.0.0/8")
    assert "hush" not in repr(settings)
    assert settings.environment()["ANGELIA_EGRESS_PROXY"].endswith("joe:hush@proxy.test:3128")
    monkeypatch.setenv("ANGELIA_EGRESS_PROXY", "https://joe:hush@proxy.test:3128")
    with pytest.raises(CliError) as caught:
        settings_with()
    (problem,) = caught.value.details
    assert problem.path == "ANGELIA_EGRESS_PROXY"
    assert "http://host:port" in problem.message
    assert "hush" not in f"{problem.message}{caught.value}"

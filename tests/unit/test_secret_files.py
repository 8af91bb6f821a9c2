"""Each secret setting may be in a file, which is read again whenever the secret is used."""

import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.cli.commands.check import check
from app.cli.environment import api_key
from app.cli.errors import CliError
from app.cli.settings import changed, settings_with
from app.config import Settings
from app.secret_files import SecretFile, variables
from tests.fakes.keys import KEY

SECRETS = [
    name for name, field in Settings.model_fields.items() if len(variables(Settings, name)) == 2
]
# Of a form that each of them takes.
TEXTS = {
    "secret_key": KEY,
    "otlp_headers": "name=hush",
    "database_url": "postgresql://joe:hush@127.0.0.1:1/shop",
}
# Of no use alone.
OF_LOGINS = {"kafka_sasl_password", "kafka_oauth_client_secret"}
MUST_BE_READABLE = "must be the path of a text file that can be read and is not empty"


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        for variable in variables(Settings, name):
            monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("http://joe:hush@host.test:1\n")
    return path


def problem_of_settings() -> tuple[str, str]:
    with pytest.raises(CliError) as caught:
        settings_with()
    (problem,) = caught.value.details
    return problem.path, problem.message


def test_all_secrets_are_known() -> None:
    assert {*TEXTS, "api_key", "kafka_sasl_password", "egress_proxy"} <= set(SECRETS)


@pytest.mark.parametrize("name", [each for each in SECRETS if each not in OF_LOGINS])
def test_a_secret_in_a_file_is_the_secret(
    monkeypatch: pytest.MonkeyPatch, secret: Path, name: str
) -> None:
    text = TEXTS.get(name, secret.read_text().strip())
    secret.write_text(f"{text}\n")
    monkeypatch.setenv(f"angelia_{name}_file", str(secret))
    if name.startswith("database_") and name != "database_url":
        # Without the URL of a database they are refused.
        monkeypatch.setenv("ANGELIA_DATABASE_URL", "postgresql://db.test/shop")
    assert getattr(settings_with(), name).get_secret_value() == text


def test_a_secret_is_read_again_and_kept_while_its_file_is_replaced(secret: Path) -> None:
    found = SecretFile(secret)
    secret.write_text("another\r\n")
    assert found.get_secret_value() == "another"
    secret.write_text("")
    assert found.get_secret_value() == "another"
    secret.unlink()
    assert found.get_secret_value() == "another"
    assert "another" not in f"{found}{found!r}"


def test_a_secret_is_given_in_one_way(monkeypatch: pytest.MonkeyPatch, secret: Path) -> None:
    monkeypatch.setenv("ANGELIA_API_KEY_FILE", str(secret))
    monkeypatch.setenv("ANGELIA_API_KEY", "hush")
    told = problem_of_settings()
    assert told == ("ANGELIA_API_KEY_FILE", "must not be set beside ANGELIA_API_KEY")
    with pytest.raises(CliError) as caught:
        api_key()
    assert [(each.path, each.message) for each in caught.value.details] == [told]


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff"])
def test_a_file_that_cannot_be_read_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    monkeypatch.setenv("ANGELIA_API_KEY_FILE", str(tmp_path / "secret"))
    told = ("ANGELIA_API_KEY_FILE", MUST_BE_READABLE)
    assert problem_of_settings() == told
    with pytest.raises(CliError) as caught:
        api_key()
    assert [(each.path, each.message) for each in caught.value.details] == [told]


def test_a_secret_of_another_form_is_named_by_its_file(
    monkeypatch: pytest.MonkeyPatch, secret: Path
) -> None:
    monkeypatch.setenv("ANGELIA_SECRET_KEY_FILE", str(secret))
    variable, message = problem_of_settings()
    assert (variable, "hush" in message) == ("ANGELIA_SECRET_KEY_FILE", False)


def test_a_command_sends_the_key_of_the_file(monkeypatch: pytest.MonkeyPatch, secret: Path) -> None:
    monkeypatch.setenv("ANGELIA_API_KEY_FILE", str(secret))
    configured = settings_with().api_key
    assert configured is not None
    assert api_key() == configured.get_secret_value()


def test_a_child_reads_the_same_file(monkeypatch: pytest.MonkeyPatch, secret: Path) -> None:
    monkeypatch.chdir(secret.parent)
    monkeypatch.setenv("ANGELIA_EGRESS_PROXY_FILE", secret.name)
    environment = changed(settings_with(), port=1).environment()
    assert environment["ANGELIA_EGRESS_PROXY_FILE"] == str(secret)
    assert "ANGELIA_EGRESS_PROXY" not in environment


def test_a_secret_that_replaces_the_file_is_all_that_a_child_gets(
    monkeypatch: pytest.MonkeyPatch, secret: Path
) -> None:
    monkeypatch.setenv("ANGELIA_API_KEY_FILE", str(secret))
    environment = changed(settings_with(), api_key=SecretStr("other")).environment()
    assert environment["ANGELIA_API_KEY"] == "other"
    assert "ANGELIA_API_KEY_FILE" not in environment


def test_a_check_shows_the_file_and_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], secret: Path
) -> None:
    secret.write_text(TEXTS["database_url"])
    monkeypatch.setenv("ANGELIA_DATABASE_URL_FILE", str(secret))
    with pytest.raises(CliError):
        check(as_json=True)
    written = capsys.readouterr().out
    assert "hush" not in written
    assert {
        "name": "ANGELIA_DATABASE_URL_FILE",
        "value": str(secret),
        "from": "environment",
    } in json.loads(written)["settings"]

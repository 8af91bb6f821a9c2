import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from app.config import Settings
from app.domain.errors import SecretKeyError, SecretKeyMissingError
from app.storage.keyring import KEY_FILE, open_vault, secret_key_of
from tests.fakes.keys import KEY, OTHER_KEY, VAULT

DATABASE = SecretStr("postgresql://h.test/angelia")


def test_the_keys_of_the_settings_come_first(tmp_path: Path) -> None:
    vault = open_vault(Settings(home=tmp_path, secret_key=SecretStr(f"{KEY},{OTHER_KEY}")))
    assert vault.key_ids[0] == VAULT.key_ids[0]
    assert not (tmp_path / KEY_FILE).exists()


def test_beside_the_embedded_database_a_key_is_made_once_for_its_owner_alone(
    tmp_path: Path,
) -> None:
    home = tmp_path / "new" / "home"
    made = open_vault(Settings(home=home))
    assert open_vault(Settings(home=home)).key_ids == made.key_ids
    assert stat.S_IMODE((home / KEY_FILE).stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == [KEY_FILE]


def test_processes_that_start_at_once_have_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        vaults = threads.map(lambda _: open_vault(Settings(home=tmp_path)), range(16))
        assert len({vault.key_ids for vault in vaults}) == 1
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_the_key_file_may_hold_several_keys(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text(f"{OTHER_KEY},{KEY}\n")
    assert open_vault(Settings(home=tmp_path)).key_ids[1] == VAULT.key_ids[0]


@pytest.mark.parametrize("text", ["", "no key", "ü"])
def test_a_key_file_that_holds_none_is_named_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    (tmp_path / KEY_FILE).write_text(text)
    with pytest.raises(SecretKeyError, match=KEY_FILE):
        open_vault(Settings(home=tmp_path))
    assert (tmp_path / KEY_FILE).read_text() == text


def test_a_server_without_a_key_stores_no_secret(tmp_path: Path) -> None:
    vault = open_vault(Settings(home=tmp_path, database_url=DATABASE))
    with pytest.raises(SecretKeyMissingError, match="ANGELIA_SECRET_KEY"):
        vault.seal("s3cret", ("a", "b", "c"))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_setting_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANGELIA_SECRET_KEY", "")
    assert Settings(home=tmp_path).secret_key is None


def test_a_setting_that_is_no_key_is_refused_without_being_quoted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANGELIA_SECRET_KEY", "hunter2")
    with pytest.raises(ValidationError, match="32 bytes in base64") as refused:
        Settings()
    assert "hunter2" not in str(refused.value)


def test_the_key_beside_the_embedded_database_can_be_handed_on(tmp_path: Path) -> None:
    vault = open_vault(Settings(home=tmp_path))
    child = Settings(
        home=tmp_path, database_url=DATABASE, secret_key=secret_key_of(Settings(home=tmp_path))
    )
    assert open_vault(child).key_ids == vault.key_ids

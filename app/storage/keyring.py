"""The keys of a process: from the settings, or from a file beside the embedded data.

The file is `secret.key` in the home folder. Only its owner can read it. Somebody who has a copy of
the database, but not this file, cannot read any secret.
"""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from app.config import Settings
from app.domain.errors import SecretKeyError
from app.vault import Vault, new_key

KEY_FILE: Final = "secret.key"

_MODE: Final = stat.S_IRUSR | stat.S_IWUSR


def open_vault(settings: Settings) -> Vault:
    """Return the vault with the keys of `settings`. The vault encrypts and decrypts secrets.

    With an embedded database, a key is created if there is none. Without a key, the vault refuses
    to store secrets.

    Raises:
        SecretKeyError: The key file cannot be used.
    """
    keys = secret_key_of(settings)
    return Vault() if keys is None else Vault.of(keys.get_secret_value())


def secret_key_of(settings: Settings) -> SecretStr | None:
    """Return the keys as one text, as in `ANGELIA_SECRET_KEY`; None if there is no key.

    With an embedded database and no key in `settings`, the keys are read from the key file, which
    is created if it is missing.
    """
    if settings.secret_key is not None or not settings.embedded_database:
        return settings.secret_key
    file = settings.home / KEY_FILE
    try:
        keys = _kept_in(file).strip()
        Vault.of(keys)
    except (OSError, ValueError) as exc:
        problem = exc.strerror if isinstance(exc, OSError) else exc
        raise SecretKeyError(f"The key file {file} cannot be used: {problem}") from exc
    return SecretStr(keys)


def _kept_in(file: Path) -> str:
    with suppress(FileNotFoundError):
        return file.read_text("ascii")
    file.parent.mkdir(parents=True, exist_ok=True)
    _make(file)
    return file.read_text("ascii")


def _make(file: Path) -> None:
    """Create a key file atomically. If another process was faster, keep the key of that process.

    The key is on the disk before it is used. Otherwise a crash could lose the key, and all secrets
    with it.
    """
    handle, name = tempfile.mkstemp(prefix=f"{file.name}.", dir=file.parent)  # mode 0600
    made = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as opened:
            os.fchmod(opened.fileno(), _MODE)
            opened.write(f"{new_key()}\n")
            opened.flush()
            os.fsync(opened.fileno())
        with suppress(FileExistsError):
            os.link(made, file)
        _sync(file.parent)
    finally:
        made.unlink()


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

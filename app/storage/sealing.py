"""Secrets in rows: they are encrypted when written, and decrypted when read.

An encrypted text is stored as `{"sealed": …}` (see `app.vault`). A plain text was stored by a
version that did not encrypt secrets, and can still be read.
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.errors import SecretUnreadableError
from app.domain.secrets import MASK
from app.vault import Vault

VAULT: Final = "vault"

_SEALED: Final = "sealed"


def vault_of(session: AsyncSession) -> Vault:
    """Return the vault that was passed to `open_database`."""
    found = session.info[VAULT]
    if not isinstance(found, Vault):
        raise TypeError("the session is not one of a Database")
    return found


class Sealing:
    """Encrypts and decrypts the secrets of one row of `table`.

    If a secret cannot be decrypted, MASK is returned in its place, and `unreadable` has the reason.
    So one bad row does not prevent others from being read.
    """

    def __init__(self, vault: Vault, *, table: str, row: str) -> None:
        self._vault = vault
        self._row = (table, row)
        self.unreadable = ""
        # The number of secrets that are not encrypted with the current key.
        self.outdated = 0
        # The number of secrets that were decrypted.
        self.opened = 0

    def seal(self, text: str, field: str) -> Mapping[str, str]:
        """Encrypt `text` for `field` of this row; return the form to store.

        Raises:
            SecretKeyMissingError: No secret key is configured.
        """
        return {_SEALED: self._vault.seal(text, (*self._row, field))}

    def open(self, stored: Any, field: str) -> str:  # noqa: ANN401 - JSON can have any type
        """Return the secret in `field` of this row, decrypted from its stored form."""
        self.opened += 1
        if isinstance(stored, str):
            self.outdated += 1
            return stored
        sealed = str(stored.get(_SEALED)) if isinstance(stored, dict) else ""
        try:
            text = self._vault.open(sealed, (*self._row, field))
            self.outdated += not self._vault.is_current(sealed)
        except SecretUnreadableError as exc:
            self.unreadable = exc.message
            return MASK
        return text

"""Secrets in rows: encrypted on writing, decrypted on reading.

An encrypted text is stored as `{"sealed": …}` (see `app.vault`); a plain text is from before
secrets were encrypted, and can still be read.
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
    """The secrets of one row of `table`.

    A secret that cannot be decrypted reads as MASK, and `unreadable` has the reason: so other rows
    can be read.
    """

    def __init__(self, vault: Vault, *, table: str, row: str) -> None:
        self._vault = vault
        self._row = (table, row)
        self.unreadable = ""
        # The number of opened secrets that are not encrypted with the current key.
        self.outdated = 0
        self.opened = 0

    def seal(self, text: str, field: str) -> Mapping[str, str]:
        """Return the stored form of `text`, in `field` of this row.

        Raises:
            SecretKeyMissingError: No secret key is configured.
        """
        return {_SEALED: self._vault.seal(text, (*self._row, field))}

    def open(self, stored: Any, field: str) -> str:  # noqa: ANN401 - JSON in
        """Return the secret that is stored in `field` of this row."""
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

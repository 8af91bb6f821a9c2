"""Secrets in rows: sealed when they are written, opened when they are read.

A sealed text is stored as `{"sealed": …}` (see `app.vault`); a text that is stored as it is dates
from before secrets were encrypted, and is read all the same.
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
    """The vault of the process, as it was given to `open_database`."""
    found = session.info[VAULT]
    if not isinstance(found, Vault):
        raise TypeError("the session is not one of a Database")
    return found


class Sealing:
    """The secrets of one row of `table`.

    One that cannot be opened reads as MASK, and `unreadable` says why: whoever reads many rows
    goes on with the others.
    """

    def __init__(self, vault: Vault, *, table: str, row: str) -> None:
        self._vault = vault
        self._row = (table, row)
        self.unreadable = ""
        # How many of those that were opened are not sealed under the key that seals now.
        self.outdated = 0
        self.opened = 0

    def seal(self, text: str, field: str) -> Mapping[str, str]:
        """What is stored for `text`, in `field` of this row; SecretKeyMissingError."""
        return {_SEALED: self._vault.seal(text, (*self._row, field))}

    def open(self, stored: Any, field: str) -> str:  # noqa: ANN401 - JSON in
        """The secret that is stored in `field` of this row."""
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

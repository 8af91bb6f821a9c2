"""Key rotation: encrypts stored secrets again with the first key, if an old key was used."""

from dataclasses import dataclass
from typing import Final

from app.storage.catalogue.resealing import RESEALINGS, Resealed
from app.storage.database import Database

# The maximum number of table rows that one transaction of the rotation changes. The rows are locked
# for some milliseconds.
ROWS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The result of a rotation: the number of all secrets, and how many were encrypted again.

    Each entry of `unreadable` names an object with a secret that is encrypted under an unknown key.
    """

    secrets: int = 0
    resealed: int = 0
    unreadable: tuple[str, ...] = ()

    def with_rows(self, rows: Resealed) -> "Rotation":
        """Return the sum of this result and the result for more rows."""
        return Rotation(
            secrets=self.secrets + rows.secrets,
            resealed=self.resealed + rows.resealed,
            unreadable=self.unreadable + rows.unreadable,
        )


async def rotate_secrets(database: Database) -> Rotation:
    """Encrypt all secrets with the first key of the database's vault.

    This can run while the service runs, and can be stopped at any time. Each transaction changes a
    few rows. After a stop, another run encrypts the remaining secrets.

    Raises:
        SecretKeyMissingError: No secret key is configured.
        StorageUnavailableError: The database cannot be reached.
    """
    done = Rotation()
    for reseal in RESEALINGS:
        after: str | None = ""
        while after is not None:
            async with database.transaction() as session:
                rows = await reseal(session, after, ROWS_MAX)
            done, after = done.with_rows(rows), rows.last
    return done

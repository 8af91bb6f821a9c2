"""Changing keys: everything that is stored under another key than the first is encrypted again."""

from dataclasses import dataclass
from typing import Final

from app.storage.catalogue.resealing import RESEALINGS, Resealed
from app.storage.database import Database

# So many rows are locked at once, for some milliseconds.
ROWS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """What a rotation came to: `secrets` there are, `resealed` of them were encrypted again.

    Each entry of `unreadable` names what has a secret under a key that is not known.
    """

    secrets: int = 0
    resealed: int = 0
    unreadable: tuple[str, ...] = ()

    def with_rows(self, rows: Resealed) -> "Rotation":
        """This and some more rows."""
        return Rotation(
            secrets=self.secrets + rows.secrets,
            resealed=self.resealed + rows.resealed,
            unreadable=self.unreadable + rows.unreadable,
        )


async def rotate_secrets(database: Database) -> Rotation:
    """Encrypt with the first key of the database's vault what is not; returns when all is done.

    Safe beside everything else, and to be ended at any time: each few rows are a transaction, what
    is not encrypted again stays as it is, and another run does the rest. SecretKeyMissingError
    without a key; StorageUnavailableError.
    """
    done = Rotation()
    for reseal in RESEALINGS:
        after: str | None = ""
        while after is not None:
            async with database.transaction() as session:
                rows = await reseal(session, after, ROWS_MAX)
            done, after = done.with_rows(rows), rows.last
    return done

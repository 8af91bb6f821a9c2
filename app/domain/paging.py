"""Pages of lists that are ordered by name, or by several."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePage:
    """At most `limit` names (None: all), those after the name `after`, in order."""

    limit: int | None = None
    after: str | None = None


ALL_NAMES: Final = NamePage()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPage:
    """As `NamePage`, of what is ordered by several names: those behind the key `after`."""

    limit: int | None = None
    after: tuple[str, ...] | None = None


ALL_KEYS: Final = KeyPage()

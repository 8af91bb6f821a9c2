"""Pages of lists that are ordered by one name or several."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePage:
    """At most `limit` names (None: all) after the name `after`, in order."""

    limit: int | None = None
    after: str | None = None


ALL_NAMES: Final = NamePage()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPage:
    """Like `NamePage`, for an order by several names: items after the key `after`."""

    limit: int | None = None
    after: tuple[str, ...] | None = None


ALL_KEYS: Final = KeyPage()

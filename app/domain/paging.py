"""Pages of lists that are ordered by one name or by several names."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePage:
    """A page of at most `limit` names, which follow the name `after`.

    If `limit` is None, the page has all names.
    """

    limit: int | None = None
    after: str | None = None


ALL_NAMES: Final = NamePage()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPage:
    """A page of at most `limit` items of a list that is ordered by several names.

    The page has the items that follow the key `after`, which consists of these names.
    """

    limit: int | None = None
    after: tuple[str, ...] | None = None


ALL_KEYS: Final = KeyPage()

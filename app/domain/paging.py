"""Pages of lists that are ordered by one name or by several names."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePage:
    """A page of at most `limit` names that follow the name `after`.

    None as the limit means all names.
    """

    limit: int | None = None
    after: str | None = None


ALL_NAMES: Final = NamePage()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPage:
    """A page like `NamePage`, for lists in the order of several names.

    The page has the items after the key `after`.
    """

    limit: int | None = None
    after: tuple[str, ...] | None = None


ALL_KEYS: Final = KeyPage()

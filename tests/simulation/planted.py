"""The form of bugs that can be planted in the product's code."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.simulation.loader import Replacement


class Planted(NamedTuple):
    """A bug: what the product does wrong with it, and the replacements of text that plant it."""

    does: str
    replaced: Sequence[Replacement]


def bug(does: str, *replacement: str) -> Planted:
    """Return a bug that replaces one text: the module, the text, and what replaces it."""
    module, text, by = replacement
    return Planted(does, (Replacement(module, text, by),))

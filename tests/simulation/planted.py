"""The form of bugs that can be planted in the product's code."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.simulation.loader import Replacement


class Planted(NamedTuple):
    """A bug: what the product does wrong with it, and the replacements of text that plant it."""

    does: str
    replaced: Sequence[Replacement]


def bug(does: str, *replacement: str) -> Planted:
    """Return a bug: the module, and pairs of a text in it and what replaces the text."""
    module, *texts = replacement
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return Planted(does, [Replacement(module, text, by) for text, by in pairs])

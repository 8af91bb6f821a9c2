"""What is said of metrics outside of the code: it names those that exist, and all of them."""

from app.metrics.documented import described
from tests.architecture.tree import ROOT

DOCUMENT = ROOT / "docs" / "metrics.md"


def test_the_document_has_the_closed_list() -> None:
    """Write it anew with `python -m app.metrics.documented`."""
    assert DOCUMENT.read_text().endswith(f"## All metrics\n\n{described()}\n")

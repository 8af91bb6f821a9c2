from typing import Any

import pytest

from app.console.pages.ledger import DOUBTS, verdict
from app.domain.insight.ledger import Doubt


def a_ledger(*, missing: int = 0, entries: int = 1, proved: bool = True) -> dict[str, Any]:
    return {"entryCount": entries, "proved": proved, "sums": {"missing": missing}}


@pytest.mark.parametrize(
    ("ledger", "start", "tone"),
    [
        (a_ledger(entries=0, proved=False), "There is no entry", "calm"),
        (a_ledger(missing=1), "1 message is missing", "bad"),
        (a_ledger(missing=1_400), "1,400 messages are missing", "bad"),
        (a_ledger(), "Nothing is missing", "good"),
        (a_ledger(proved=False), "Nothing is known to be missing", "warn"),
    ],
)
def test_the_verdict_on_a_ledger_is_a_sentence(
    ledger: dict[str, Any], start: str, tone: str
) -> None:
    text, found = verdict(ledger)
    assert text.startswith(start)
    assert found == tone


def test_each_doubt_has_its_words() -> None:
    assert set(DOUBTS) == set(Doubt)

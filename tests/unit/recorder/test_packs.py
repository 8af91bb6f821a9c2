"""Packs before they are stored: what can be read again, by day, and not too small."""

from typing import Any

import pytest

from app.domain.trace import TraceSource
from app.tracing.buffer import ROWS_PER_PACK
from app.tracing.packs import Pack, TraceRow
from workers.recorder.packs import DAY_US, by_day, joined, require_readable

BILLING = TraceSource(topic="shop.orders", subscription_id="s-1", subscription="billing")
AUDIT = TraceSource(topic="shop.orders", subscription_id="s-2", subscription="audit")
DAYS = range(20_000, 20_003)
TODAY = 20_001 * DAY_US


def a_row(**settings: Any) -> TraceRow:  # noqa: ANN401 - fields of the value
    row = TraceRow(0, TODAY, "SUCCESS", "m", 1, 7, 1, 200, "", 1, 2, None, 3, "", "", "")
    return row._replace(**settings)


def a_pack(*rows: TraceRow, worker: str = "w", **settings: Any) -> Pack:  # noqa: ANN401 - fields of the value
    return Pack(worker, TODAY, 0, "", {0: BILLING}, rows, b"as it came")._replace(**settings)


@pytest.mark.parametrize(
    "odd",
    [
        {"status": "UNKNOWN"},
        {"status": None},
        {"offset": 1 << 63},
        {"partition": 1 << 31},
        {"partition": True},
        {"source": 9},
        {"source": []},
        {"at": 1.5},
        {"message_id": None},
        {"took": "long"},
        {"reason": 1},
    ],
)
def test_what_nobody_could_read_again_is_refused(odd: dict[str, Any]) -> None:
    require_readable(a_pack(a_row(), a_row()))
    with pytest.raises((ValueError, TypeError)):
        require_readable(a_pack(a_row(), a_row(**odd)))


def test_rows_of_another_length_are_refused() -> None:
    for rows in ([tuple(a_row())[:9]], [a_row(), tuple(a_row())[:9]], [(*a_row(), 1)]):
        with pytest.raises(ValueError, match="zip"):
            require_readable(a_pack()._replace(rows=rows))


def test_a_pack_of_one_day_stays_as_it_came() -> None:
    pack = a_pack(a_row(), a_row(at=TODAY + DAY_US - 1))
    assert list(by_day(pack, DAYS)) == [pack]
    assert list(by_day(pack, range(20_002, 20_003))) == []
    assert list(by_day(a_pack(), DAYS)) == []


def test_a_pack_of_several_days_is_parted_and_what_is_not_kept_left_out() -> None:
    before, after, long_ago = (a_row(at=TODAY + n * DAY_US) for n in (-1, 1, -2))
    parts = by_day(a_pack(after, before, long_ago, a_row(), before), DAYS)
    assert [list(part.rows) for part in parts] == [[before, before], [a_row()], [after]]
    assert {part.value for part in parts} == {b""}


def test_small_packs_of_a_process_and_a_day_become_one() -> None:
    ours, tomorrow = a_pack(a_row()), a_pack(a_row(at=TODAY + DAY_US))
    more = a_pack(a_row(source=1), sources={1: AUDIT})
    others = a_pack(a_row(), worker="w-2")
    both, later, alone = joined([ours, tomorrow, others, more])
    assert (both.sources, list(both.rows)) == ({0: BILLING, 1: AUDIT}, [a_row(), a_row(source=1)])
    assert both.value == b""
    assert (later, alone) == (tomorrow, others)


def test_packs_that_are_full_stay_as_they_came() -> None:
    full = a_pack(*[a_row()] * ROWS_PER_PACK)
    small = a_pack(a_row())
    assert list(joined([small, full, small])) == [small, full, small]


def test_packs_that_mean_other_sources_by_a_number_stay_apart() -> None:
    packs = [a_pack(a_row()), a_pack(a_row(), sources={0: AUDIT})]
    assert list(joined(packs)) == packs

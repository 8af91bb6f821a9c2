import re
from xml.etree import ElementTree as ET

import pytest

from app.console.charts import (
    POINTS_MAX,
    ChartLine,
    ChartPoint,
    line_chart,
    meter,
    nice_top,
    stacked_bar,
    thinned,
    time_step,
)


def a_line(*values: float | None, name: str = "delivered") -> ChartLine:
    points = [ChartPoint(60.0 * at, value) for at, value in enumerate(values)]
    return ChartLine(name=name, kind="good", points=points)


def svg_of(text: str) -> ET.Element:
    found = re.search(r"<svg.*</svg>", text, re.DOTALL)
    assert found
    return ET.fromstring(found[0])  # noqa: S314 - the text is ours


@pytest.mark.parametrize(
    ("highest", "top"),
    [(0, 1), (0.3, 0.5), (1, 1), (1.2, 2), (2.4, 2.5), (41, 50), (99, 100), (101, 200)],
)
def test_the_value_axis_ends_at_a_round_number(highest: float, top: float) -> None:
    assert nice_top(highest) == pytest.approx(top)


@pytest.mark.parametrize(
    ("seconds", "step"),
    [(86_400, 21_600), (172_800, 43_200), (3600, 600), (300, 60), (9e9, 604_800)],
)
def test_a_time_axis_has_a_few_marks_at_round_times(seconds: float, step: int) -> None:
    assert time_step(seconds) == step


def test_the_highest_value_is_at_the_top_of_its_axis() -> None:
    drawn = svg_of(line_chart("Delivered", [a_line(0, 50, 100)]))
    [path] = [each for each in drawn if each.tag == "path"]
    assert path.get("d") == "M104 256L524 138L944 20"


def test_an_unknown_value_leaves_a_gap() -> None:
    drawn = svg_of(line_chart("Delivered", [a_line(1, 1, None, 1, 1)]))
    [path] = [each for each in drawn if each.tag == "path"]
    assert str(path.get("d")).count("M") == 2


def test_a_chart_has_no_style_attributes_which_the_policy_forbids() -> None:
    text = line_chart("Delivered", [a_line(1, 2)], unit="rate") + meter(1, 2)
    assert "style=" not in text


def test_names_of_lines_are_escaped() -> None:
    text = line_chart("<b>", [a_line(1, 2, name="<script>")])
    assert "<script>" not in text
    assert "&lt;b&gt;" in text
    svg_of(text)


def test_without_two_points_the_chart_is_a_sentence() -> None:
    assert "nothing to draw" in line_chart("Delivered", [])
    assert "nothing to draw" in line_chart("Delivered", [a_line(1)])
    assert "nothing to draw" in line_chart("Delivered", [a_line(None, None)])


def test_peaks_survive_when_points_are_left_out() -> None:
    points = [ChartPoint(at, 1000.0 if at == 777 else 1.0) for at in range(2880)]
    kept = thinned(points)
    assert len(kept) <= POINTS_MAX
    assert ChartPoint(777, 1000.0) in kept


def test_a_chart_of_two_days_by_the_minute_is_small() -> None:
    lines = [a_line(*(float(at % 97) for at in range(2880)), name=str(each)) for each in range(4)]
    assert len(line_chart("Delivered", lines)) < 14_000


def test_a_meter_stays_between_none_and_all() -> None:
    assert 'width="100.0"' in meter(7, 2)
    assert 'width="0.0"' in meter(7, 0)


def test_a_stacked_bar_has_its_parts_one_after_the_other_and_never_more_than_all() -> None:
    text = stacked_bar([("good", "<a>", 1), ("bad", "b", 2), ("calm", "c", 9)], 4)
    parts = [each for each in svg_of(text) if each.get("class") != "rail"]
    assert [(each.get("x"), each.get("width")) for each in parts] == [
        ("0.0", "25.0"),
        ("25.0", "50.0"),
        ("75.0", "25.0"),
    ]
    assert "<a>" not in text
    assert "style=" not in text

"""Tables of the console as CSV files."""

import csv
from typing import Any

import pytest

from app.console.csv_file import CsvFile


def saved(*values: object) -> list[list[str]]:
    file = CsvFile(name="f.csv", columns=["a"], rows=[{"a": value} for value in values])
    return list(csv.reader(file.text.splitlines(keepends=True)))[1:]


def test_values_come_back_as_they_were() -> None:
    assert saved('"a", b', "two\nlines", "é\u202e", 7, 0.25) == [
        ['"a", b'], ["two\nlines"], ["é\u202e"], ["7"], ["0.25"],
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_text_is_no_formula(text: str) -> None:
    assert saved(text) == [[f"'{text}"]]


def test_a_number_below_zero_stays_a_number() -> None:
    assert saved(-1) == [["-1"]]


def test_fields_of_objects_are_columns_and_missing_ones_are_empty() -> None:
    rows: list[dict[str, Any]] = [{"total": {"p50": 2.5}}, {"total": None}, {}]
    file = CsvFile(name="f.csv", columns=["total.p50", "within"], rows=rows)
    assert file.text.split("\r\n") == ["total.p50,within", "2.5,", ",", ",", ""]

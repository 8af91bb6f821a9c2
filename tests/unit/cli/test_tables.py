"""Tables of commands: on terminals of any width, and for other programs."""

import io
import re

import pytest
from rich.console import Console

from app.cli import output

JOB = ["0123456789abcdef0123456789abcdef", "UNDELIVERED_ANALYTICS", "RUNNING", "45%"]
JOBS = ["ID", "KIND", "STATE", "DONE", "REQUESTED", "WHAT"]
ROW = [*JOB, "2026-01-31 14:02:03", "shop.orders/billing"]


def table(columns: list[str], *rows: list[object], width: int | None) -> list[str]:
    """The lines as they are on a terminal of that width; None: in a file."""
    text = io.StringIO()
    console = Console(
        file=text, width=width, force_terminal=width is not None, color_system=None, soft_wrap=True
    )
    output.write_table(columns, rows, to=console)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_a_row_is_one_line_for_programs() -> None:
    header, line = table(JOBS, list(ROW), width=None)
    assert header.split() == JOBS
    assert re.split(" {2,}", line) == ROW


def test_what_does_not_fit_the_terminal_stands_below_its_row_and_no_word_is_broken() -> None:
    lines = table(JOBS, list(ROW), list(ROW), width=80)
    assert max(map(len, lines)) <= 80
    assert lines == [
        "ID                                KIND                   STATE    DONE",
        "    REQUESTED  WHAT",
        *2 * ["  ".join(JOB), "    2026-01-31 14:02:03  shop.orders/billing"],
    ]


def test_a_last_column_with_enough_space_is_wrapped_in_it() -> None:
    lines = table(["ID", "WHY"], ["a", "word " * 30], width=40)
    assert lines[1].startswith("a   word word")
    assert all(line.startswith("    word") for line in lines[2:])
    assert max(map(len, lines)) <= 40


@pytest.mark.parametrize("width", [10, 30])
def test_a_first_column_that_is_too_wide_is_whole_all_the_same(width: int) -> None:
    header, what, first, below = table(["ID", "WHAT"], [JOB[0], "x"], width=width)
    assert (header.strip(), what.strip(), first, below) == ("ID", "WHAT", JOB[0], "    x")


def test_numbers_stand_at_the_right_and_control_characters_are_shown() -> None:
    assert table(["N", "X"], [1, "\x1b[1m"], [20, ""], width=None) == [
        " N  X",
        " 1  \N{REPLACEMENT CHARACTER}[1m",
        "20",
    ]


def test_a_text_keeps_its_lines_in_the_last_column_alone() -> None:
    assert table(["A", "B"], ["x\ny", "1\n2  3"], width=None) == ["A    B", "x y  1", "     2  3"]


def test_a_table_without_rows_has_its_columns() -> None:
    assert table(JOBS, width=80) == ["  ".join(JOBS)]

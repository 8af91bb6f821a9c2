"""The output of commands: tables for people, JSON for programs, errors to stderr."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from textwrap import wrap
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from app.cli.errors import CliError

_UNFOLDED: Final = 100_000
# The number of spaces between two columns of a table, and before values that are written below a
# row.
_GAP: Final = 2
_BELOW: Final = "    "
# The minimum width of a column whose text is wrapped.
_WRAPPED_MIN: Final = 24

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """Return `text` with a replacement for each control character of a terminal.

    Other people write bodies and reasons. An escape sequence in such a text could change the
    screen.
    """
    return "".join(each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}"
                   for each in text)  # fmt: skip


def write_text(text: str) -> None:
    """Write text without markup to standard output. Control characters are replaced."""
    out.print(Text(printable(text)))


def write_json(value: Any) -> None:  # noqa: ANN401 - the API may return any JSON
    """Write `value` as indented JSON."""
    out.out(json.dumps(value, indent=2, ensure_ascii=False), highlight=False)


def write_json_line(value: Any) -> None:  # noqa: ANN401 - any data may be received
    """Write `value` as JSON on one line, and flush the output."""
    print(json.dumps(value, ensure_ascii=False), flush=True)  # noqa: T201 - the output is for programs


def write_object(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Write all fields of one object, as a table or as JSON."""
    if as_json:
        write_json(found)
    else:
        write_fields(found)


def write_names(column: str, names: Sequence[str], *, as_json: bool) -> None:
    """Write a list of names, as a table with the title `column` or as JSON."""
    if as_json:
        write_json(names)
    else:
        write_table([column], [[name] for name in names])


def write_done(words: str, value: Mapping[str, Any], *, as_json: bool) -> None:
    """Write what the command did: a sentence for people, or the changed object as JSON."""
    if as_json:
        write_json(value)
    else:
        write_text(words)


def write_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, to: Console | None = None
) -> None:
    """Write a table to standard output or another console; numbers are right-aligned.

    Outside of a terminal, a row is one line. On a terminal, the last column is wrapped. If the last
    columns would get too little space, their values are written below each row instead.
    """
    console = out if to is None else to
    listed = [tuple(row) for row in rows]
    cells = [list(columns), *([printable(str(cell)) for cell in row] for row in listed)]
    for row in cells:
        row[:-1] = [cell.replace("\n", " ") for cell in row[:-1]]
    widths = [max(map(cell_len, each)) for each in zip(*cells, strict=True)]
    numeric = [_all_numbers([row[index] for row in listed]) for index in range(len(columns))]
    space = console.width if console.is_terminal else _UNFOLDED
    above = _columns_above(widths, space)
    for index, row in enumerate(cells):
        aligned = [
            _aligned(cell, width, is_right=is_number)
            for cell, width, is_number in zip(row, widths, numeric, strict=True)
        ]
        for line in _lines(aligned, [each for each in row[above:] if each], space, above=above):
            console.print(
                Text(line, "" if index else "bold"), no_wrap=True, overflow="ignore", crop=False
            )


def _all_numbers(values: Sequence[object]) -> bool:
    return bool(values) and all(isinstance(each, int | float) for each in values)


def _aligned(cell: str, width: int, *, is_right: bool) -> str:
    spaces = " " * (width - cell_len(cell))
    return spaces + cell if is_right else cell + spaces


def _columns_above(widths: Sequence[int], space: int) -> int:
    """Return how many of the columns fit beside each other in `space` characters.

    The values of the columns that do not fit are written below each row.
    """
    ends = [sum(widths[: count + 1]) + _GAP * count for count in range(len(widths))]
    wrapped = (ends[-2] + _GAP if len(ends) > 1 else 0) + _WRAPPED_MIN
    if ends[-1] <= space or wrapped <= space:
        return len(widths)
    return max(sum(end <= space for end in ends), 1)


def _lines(aligned: Sequence[str], below: Sequence[str], space: int, *, above: int) -> list[str]:
    gap = " " * _GAP
    if above < len(aligned):
        line = gap.join(aligned[:above]).rstrip()
        return [line, *(_BELOW + each for each in _wrapped(gap.join(below), space - len(_BELOW)))]
    before = "".join(f"{each}{gap}" for each in aligned[:-1])
    first, *others = _wrapped(aligned[-1].rstrip(), space - cell_len(before))
    return [(before + first).rstrip(), *(" " * cell_len(before) + each for each in others)]


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, each wrapped between words.

    An empty text gives one empty line.
    """
    most = max(width, _WRAPPED_MIN)
    pieces = [
        wrap(each, most, break_on_hyphens=False) if len(each) > width else [each]
        for each in text.split("\n")
    ]
    return [piece for each in pieces for piece in each]


def write_fields(fields: Mapping[str, Any]) -> None:
    """Write one line for each field.

    An inner field is written with the names of both fields, such as `owner.id`.
    """
    write_table(["FIELD", "VALUE"], _flat(fields, ""))


def _flat(fields: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


def local_time(at: datetime | None) -> str:
    """Return a time in the time zone of this machine; empty for None."""
    return "" if at is None else at.astimezone().isoformat(sep=" ", timespec="milliseconds")


def local_seconds(at: datetime) -> str:
    """Return a time in the time zone of this machine, without the zone, to the second."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def write_error(error: CliError) -> None:
    """Write the error, the wrong fields, and what to do next."""
    err.print(Text.assemble(("Error: ", "bold red"), printable(error.message)))
    for problem in error.details:
        if f"{problem.path} {problem.message}" in error.message:
            continue  # skip a field that the API's own text already names
        err.print(Text(printable(f"  {problem.path}: {problem.message}")))
    if error.hint:
        err.print(Text(printable(error.hint)))

"""The output of commands: tables for people, JSON for programs, errors to stderr."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.errors import CliError

_UNFOLDED: Final = 100_000

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """Return `text` without terminal control characters.

    Other people write bodies and reasons, and an escape sequence in one could change the screen.
    """
    return "".join(each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}"
                   for each in text)  # fmt: skip


def write_text(text: str) -> None:
    """Write text unchanged, without markup."""
    out.print(Text(printable(text)))


def write_json(value: Any) -> None:  # noqa: ANN401 - the API may return any JSON
    """Write `value` as indented JSON."""
    out.out(json.dumps(value, indent=2, ensure_ascii=False), highlight=False)


def write_json_line(value: Any) -> None:  # noqa: ANN401 - any data may be received
    """Write `value` as JSON on one line immediately."""
    print(json.dumps(value, ensure_ascii=False), flush=True)  # noqa: T201 - a program may read this


def write_object(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Write one object with everything that is known of it."""
    if as_json:
        write_json(found)
    else:
        write_fields(found)


def write_names(column: str, names: Sequence[str], *, as_json: bool) -> None:
    """Write a list of names."""
    if as_json:
        write_json(names)
    else:
        write_table([column], [[name] for name in names])


def write_done(words: str, value: Mapping[str, Any], *, as_json: bool) -> None:
    """Write what was done: as a sentence, or as the changed object."""
    if as_json:
        write_json(value)
    else:
        write_text(words)


def write_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, whole: int = 1
) -> None:
    """Write a table; numbers are right-aligned, and the first `whole` columns are never wrapped.

    Rows are wrapped only on a terminal; elsewhere a row is one line.
    """
    listed = [tuple(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        numeric = bool(listed) and all(isinstance(row[index], int | float) for row in listed)
        table.add_column(
            column, justify="right" if numeric else "left", overflow="fold", no_wrap=index < whole
        )
    for row in listed:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    out.print(table, width=None if out.is_terminal else _UNFOLDED)


def write_fields(fields: Mapping[str, Any]) -> None:
    """Write one line for each field, inner fields with both names (`owner.id`)."""
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


def write_error(error: CliError) -> None:
    """Write the error, the wrong fields, and what to do next."""
    err.print(Text.assemble(("Error: ", "bold red"), printable(error.message)))
    for problem in error.details:
        if f"{problem.path} {problem.message}" in error.message:
            continue  # already listed in the API's own error text
        err.print(Text(printable(f"  {problem.path}: {problem.message}")))
    if error.hint:
        err.print(Text(printable(error.hint)))

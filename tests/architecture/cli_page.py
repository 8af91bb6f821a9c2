"""Writes docs/cli.md from the commands' own help: `python -m tests.architecture.cli_page`."""

import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final

import typer.main

from app.cli.lazy_commands import Deferred
from app.cli.main import app
from tests.architecture.tree import ROOT

PAGE: Final = ROOT / "docs" / "cli.md"
_WIDTH: Final = 120

_MARK: Final = "<!-- From here on written by `make cli`. -->"


def page() -> str:
    """The text of the page: its introduction as it is, and what the commands say."""
    root = typer.main.get_command(app)
    context = typer.Context(root, info_name="angelia")
    introduction = PAGE.read_text().partition(_MARK)[0]
    sections = "\n".join(_sections(root, context)).rstrip()
    return f"{introduction}{_MARK}\n\n{sections}\n"


def loaded(command: Any) -> Any:  # noqa: ANN401 - typer names none of its classes
    """The command itself, where it is one that is imported when it is used."""
    return command.loaded() if isinstance(command, Deferred) else command


def _sections(command: Any, context: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    for name, entry in command.commands.items():
        below = loaded(entry)
        inner = typer.Context(below, info_name=name, parent=context)
        if getattr(below, "invoke_without_command", True):
            yield _section(below, inner)
        if hasattr(below, "commands"):
            yield from _sections(below, inner)


def _section(command: Any, context: Any) -> str:  # noqa: ANN401 - as above
    lines = [f"## {context.command_path}", "", *_paragraphs(command.help or ""), "```"]
    lines += [command.get_usage(context).removeprefix("Usage: "), "```", ""]
    rows = [row for each in command.get_params(context) if (row := _row(each, context))]
    if rows:
        lines += ["| | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _row(parameter: Any, context: Any) -> str | None:  # noqa: ANN401 - as above
    record = parameter.get_help_record(context)
    if record is None or "--help" in parameter.opts:
        return None
    names, words = (re.sub(r"\s+", " ", text).replace("|", "\\|") for text in record)
    return f"| `{names}` | {words.strip()} |"


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        yield from textwrap.wrap(" ".join(paragraph.split()), _WIDTH)
        yield ""


if __name__ == "__main__":
    PAGE.write_text(page())

"""The commands of the command line that pages show."""

import html
import re
import shlex
from functools import cache

import typer.main
from typer.exceptions import TyperException

from app.cli.main import app
from tests.architecture.cli_page import loaded


def commands_of(text: str) -> list[str]:
    """The commands that a page shows, which has the HTML `text`."""
    return [html.unescape(code) for code in re.findall(r"<code>(angelia [^<]*)</code>", text)]


@cache
def problem_of(line: str) -> str:
    """Why the command line would refuse it; empty if it would not."""
    name, *arguments = shlex.split(line)
    command = typer.main.get_command(app)
    try:
        while hasattr(command, "commands"):
            command = loaded(command.commands[arguments.pop(0)])
        command.make_context(name, arguments)
    except (IndexError, KeyError, TyperException) as error:
        return repr(error)
    return ""

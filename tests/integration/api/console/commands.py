"""The commands of the command line that pages show."""

import html
import re
import shlex
from collections.abc import Iterator

import typer.main
from typer.exceptions import TyperException

from app.cli.main import app
from tests.architecture.cli_page import loaded
from tests.integration.api.console.browser import Seen


def wrong_commands(page: Seen) -> dict[str, str]:
    """The commands of a page that the command line would refuse, each with its reason."""
    return {line: problem for line in _commands(page) if (problem := _problem_of(line))}


def _commands(page: Seen) -> Iterator[str]:
    for code in re.findall(r"<code>(angelia [^<]*)</code>", page.text):
        yield html.unescape(code)


def _problem_of(line: str) -> str:
    name, *arguments = shlex.split(line)
    command = typer.main.get_command(app)
    try:
        while hasattr(command, "commands"):
            command = loaded(command.commands[arguments.pop(0)])
        command.make_context(name, arguments)
    except (KeyError, TyperException) as error:
        return repr(error)
    return ""

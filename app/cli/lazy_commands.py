"""Commands that are imported when they are used.

What a command needs (servers, drivers, Spark) takes seconds to import; to list commands, or to use
another one, none of it is needed.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

# Commands of one level: what typer makes of a function, or of a group of them.
Loaded = TyperCommand | TyperGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A command before it is imported: its name, where it is (`module:name`), and what it says."""

    name: str
    target: str
    panel: str
    help: str


class Deferred(TyperCommand):
    """Stands for a command in lists, and becomes it when it is used."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(name=entry.name, help=entry.help, rich_help_panel=entry.panel)
        self._entry = entry

    def make_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as typer has it
        """The context of the command itself, which parses what it is given."""
        return self.loaded().make_context(*args, **kwargs)

    def loaded(self) -> Loaded:
        """The command itself."""
        module, _, name = self._entry.target.partition(":")
        found = getattr(importlib.import_module(module), name)
        group = found if isinstance(found, typer.Typer) else _alone(found)
        command = get_command(group)
        command.name = self._entry.name
        return command  # type: ignore[return-value]  # which of them, typer's types do not say


def commands(entries: Sequence[Entry]) -> type[TyperGroup]:
    """A group of these commands."""

    class Group(TyperGroup):
        """The commands in their order."""

        def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - as typer has them
            super().__init__(**attributes)
            for entry in entries:
                self.add_command(Deferred(entry))

    return Group


def _alone(function: Callable[..., None]) -> typer.Typer:
    made = typer.Typer(add_completion=False)
    made.command()(function)
    return made

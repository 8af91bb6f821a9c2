"""Commands that are imported only when they are used.

The imports of a command (servers, drivers, Spark) take seconds. A list of commands, or another
command, needs none of these imports.
"""

import gc
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from app.domain.uncollected import Uncollected

# The classes of what typer makes: of a function, or of a group of functions.
Loaded = TyperCommand | TyperGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A command that is not imported yet, with the place of its function (`module:name`)."""

    name: str
    target: str
    panel: str
    help: str


class Deferred(TyperCommand):
    """Stands for a command in lists, and loads it when it is used."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(name=entry.name, help=entry.help, rich_help_panel=entry.panel)
        self._entry = entry

    def make_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - typer's method has these types
        """Return the context of the loaded command, which parses its arguments."""
        return self.loaded().make_context(*args, **kwargs)

    def loaded(self) -> Loaded:
        """Import and return the command."""
        module, _, name = self._entry.target.partition(":")
        with Uncollected():
            found = getattr(importlib.import_module(module), name)
            # Tell the garbage collector to skip all objects that are loaded by now, because they
            # are not garbage.
            gc.freeze()
        group = found if isinstance(found, typer.Typer) else _alone(found)
        command = get_command(group)
        command.name = self._entry.name
        return command  # type: ignore[return-value]  # typer's types do not say which


def commands(entries: Sequence[Entry]) -> type[TyperGroup]:
    """Return a class for typer: a group of these commands."""

    class Group(TyperGroup):
        """A group that lists its commands in the order of `entries`."""

        def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - attributes of typer's group
            super().__init__(**attributes)
            for entry in entries:
                self.add_command(Deferred(entry))

    return Group


def _alone(function: Callable[..., None]) -> typer.Typer:
    made = typer.Typer(add_completion=False)
    made.command()(function)
    return made

"""Commands that are imported only when they are used.

The imports of a command (servers, drivers, Spark) take seconds. These imports are not needed to
list the commands, or to run another command.
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

# The classes of a command, as typer makes them: from one function, or from a group of functions.
Loaded = TyperCommand | TyperGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A command that is not imported yet. `target` says where its function is (`module:name`)."""

    name: str
    target: str
    panel: str
    help: str


class Deferred(TyperCommand):
    """A placeholder for a command in lists. The command is imported when it is used."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(name=entry.name, help=entry.help, rich_help_panel=entry.panel)
        self._entry = entry

    def make_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - typer's method has these types
        """Import the command, and return its context with the parsed arguments."""
        return self.loaded().make_context(*args, **kwargs)

    def loaded(self) -> Loaded:
        """Import and return the command."""
        module, _, name = self._entry.target.partition(":")
        with Uncollected():
            found = getattr(importlib.import_module(module), name)
            # The garbage collector skips all objects that exist now, because imported modules are
            # not garbage.
            gc.freeze()
        group = found if isinstance(found, typer.Typer) else _alone(found)
        command = get_command(group)
        command.name = self._entry.name
        return command  # type: ignore[return-value]  # typer's types do not say which


def commands(entries: Sequence[Entry]) -> type[TyperGroup]:
    """Return a class for typer: a group of the commands in `entries`."""

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

"""What a console for people is told about this installation."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """What differs between installations."""

    title: str = "Angelia"
    environment_name: str = ""
    # Whether only admins, and owners of a group, create groups.
    groups_restricted: bool = False

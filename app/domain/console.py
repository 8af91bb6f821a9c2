"""The settings of this installation that consoles and clients read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """The settings of this installation that consoles and clients read."""

    title: str = "Angelia"
    environment_name: str = ""
    # Whether only admins, and owners of a group, may create the group.
    groups_restricted: bool = False
    # Whether metrics are texts, as in Hermes. A request may ask for numbers instead.
    hermes_metrics: bool = False

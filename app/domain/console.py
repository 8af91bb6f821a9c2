"""Settings of this installation for consoles and clients."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """Settings of this installation for consoles and clients."""

    title: str = "Angelia"
    environment_name: str = ""
    # Whether only admins and owners of a group may create groups.
    groups_restricted: bool = False
    # Whether metrics have Hermes' form, unless a request asks for numbers.
    hermes_metrics: bool = False

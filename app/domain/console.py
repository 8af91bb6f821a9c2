"""What differs between installations for consoles and clients."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """What differs between installations."""

    title: str = "Angelia"
    environment_name: str = ""
    # Whether only admins, and owners of a group, create groups.
    groups_restricted: bool = False
    # Whether metrics are answered in Hermes' form, unless a request asks for numbers.
    hermes_metrics: bool = False

"""Options that several commands have."""

from typing import Annotated

import typer

from app.cli.settings import api_url, settings_with

ApiOption = Annotated[
    str | None,
    typer.Option("--api", help="Address of the API; default: ANGELIA_HOST and ANGELIA_PORT."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
TopicArgument = Annotated[str, typer.Argument(help="Name of the topic: group.topic.")]
SubscriptionArgument = Annotated[str, typer.Argument(help="Name of the subscription.")]


def address(api: str | None) -> str:
    """The API's address: as given, else where the settings put it."""
    return api or api_url(settings_with())

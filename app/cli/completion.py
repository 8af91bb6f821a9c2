"""Shell completion: names of topics and subscriptions, from a running API."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import typer

from angelia_client import NO_RETRIES, Angelia, ClientError
from app.cli.environment import address, api_key
from app.cli.errors import CliError

# How long the shell completion waits for a response of the API.
_PATIENCE: Final = timedelta(seconds=1)


def topic_names(incomplete: str) -> list[str]:
    """Return the topics whose names begin with `incomplete`; none if the API does not respond."""
    return _beginning(incomplete, lambda client: client.topics.names())


def subscription_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the subscriptions of the given topic whose names begin with `incomplete`."""
    topic = str(ctx.params.get("topic") or "")
    return _beginning(incomplete, lambda client: client.subscriptions.names(topic))


def _beginning(incomplete: str, names: Callable[[Angelia], list[str]]) -> list[str]:
    try:
        with Angelia(
            address(None),
            api_key=api_key(),
            timeout=_PATIENCE,
            retries=NO_RETRIES,
            trust_env=False,
        ) as client:
            return [name for name in names(client) if name.startswith(incomplete)]
    except (ClientError, CliError):
        return []

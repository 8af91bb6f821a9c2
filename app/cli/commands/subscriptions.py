"""`angelia subscription …`."""

from collections.abc import Iterator
from typing import Annotated

import typer

from angelia_client import Angelia, History
from app.cli import output
from app.cli.bodies import subscription_settings
from app.cli.client import connected
from app.cli.commands.signing_secrets import signing_secrets
from app.cli.options import (
    ApiOption,
    Json,
    JsonOption,
    PatchArgument,
    SettingsOption,
    StartFromOption,
    SubscriptionArgument,
    TopicArgument,
)

subscriptions = typer.Typer(
    no_args_is_help=True,
    help="Subscriptions: list, create, show, change, suspend, ping, forecast, delete and more.",
)
subscriptions.add_typer(signing_secrets, name="secrets")


@subscriptions.command("list")
def list_subscriptions(
    topic: TopicArgument, *, api: ApiOption = None, as_json: JsonOption = False
) -> None:
    """List a topic's subscriptions with their state and counts."""
    with connected(api) as client:
        names = client.subscriptions.names(topic)
        found = [_with_metrics(client, topic, name) for name in names]
    if as_json:
        output.write_json(found)
        return
    output.write_table(
        ["SUBSCRIPTION", "STATE", "DELIVERED", "DISCARDED", "LAG", "ENDPOINT"],
        [
            [each["name"], each.get("state", ""), *_counts(each), each.get("endpoint", "")]
            for each in found
        ],
    )


@subscriptions.command()
def create(  # noqa: PLR0913 - each parameter is an option
    topic: TopicArgument,
    name: Annotated[str, typer.Argument(help="Name of the subscription.")],
    endpoint: Annotated[str, typer.Argument(help="URL that messages are POSTed to.")],
    *,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    rate: Annotated[int | None, typer.Option(min=1, help="Requests a second, at most.")] = None,
    start_from: StartFromOption = None,
    settings: SettingsOption = None,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Subscribe an endpoint to a topic, from now on, or from an earlier time."""
    policy: Json = {} if rate is None else {"rate": rate}
    usual = subscription_settings(description=description, policy=policy)
    with connected(api) as client:
        made = client.subscriptions.create(
            topic, name, endpoint, settings=usual | (settings or {}), start_from=start_from
        )
    lines = [f"Subscribed {name} to {topic}", *history_lines(made.history)]
    output.write_done("\n".join(lines), made.raw, as_json=as_json)


@subscriptions.command()
def show(
    topic: TopicArgument,
    name: SubscriptionArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a subscription's settings and counts."""
    with connected(api) as client:
        found = _with_metrics(client, topic, name)
    output.write_object(found, as_json=as_json)


@subscriptions.command()
def change(
    topic: TopicArgument,
    name: SubscriptionArgument,
    patch: PatchArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change settings of a subscription, for example '{"subscriptionPolicy": {"rate": 50}}'."""
    with connected(api) as client:
        changed = client.subscriptions.change(topic, name, patch=patch)
    output.write_done(f"Changed {name}", changed.raw, as_json=as_json)


@subscriptions.command()
def suspend(
    topic: TopicArgument,
    name: SubscriptionArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Suspend a subscription: nothing is delivered, and new messages wait."""
    with connected(api) as client:
        suspended = client.subscriptions.suspend(topic, name)
    output.write_done(f"Suspended {name}", suspended.raw, as_json=as_json)


@subscriptions.command()
def activate(
    topic: TopicArgument,
    name: SubscriptionArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Activate a subscription: delivery continues where it stopped."""
    with connected(api) as client:
        activated = client.subscriptions.activate(topic, name)
    output.write_done(f"Activated {name}", activated.raw, as_json=as_json)


@subscriptions.command()
def ping(
    topic: TopicArgument,
    name: SubscriptionArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send one test message now, and show the endpoint's response; exits with 1 if it fails."""
    with connected(api) as client:
        pong = client.subscriptions.ping(topic, name)
    output.write_object(pong.raw, as_json=as_json)
    if not pong.delivered:
        raise typer.Exit(1)


@subscriptions.command()
def health(
    topic: TopicArgument,
    name: SubscriptionArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the health of a subscription; exits with 1 if it is not healthy."""
    with connected(api) as client:
        found = client.subscriptions.health(topic, name)
    output.write_object(found.raw, as_json=as_json)
    if found.status == "UNHEALTHY":
        raise typer.Exit(1)


@subscriptions.command()
def forecast(
    topic: TopicArgument,
    name: SubscriptionArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how many messages wait, when they will be delivered, and which will be lost."""
    with connected(api) as client:
        found = client.subscriptions.forecast(topic, name)
    output.write_object(found.raw, as_json=as_json)


@subscriptions.command()
def delete(
    topic: TopicArgument,
    name: SubscriptionArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a subscription."""
    with connected(api) as client:
        client.subscriptions.delete(topic, name)
    result = {"topicName": topic, "name": name}
    output.write_done(f"Deleted {name} of {topic}", result, as_json=as_json)


def history_lines(history: History | None) -> Iterator[str]:
    """Yield lines about the older messages that a new subscription asked for.

    These are the messages from before the start of the log.
    """
    if history is None:
        return
    if history.retransmission is not None:
        yield f"The log begins later: retransmission {history.retransmission} reads the archive"
    if history.waiting_for is not None:
        yield history.waiting_for
    if history.gone:
        yield f"In neither the log nor the archive, up to {history.gone} messages: they do not come"


def _with_metrics(client: Angelia, topic: str, name: str) -> Json:
    metrics = client.subscriptions.metrics(topic, name)
    return {**client.subscriptions.get(topic, name).raw, "metrics": metrics.raw}


def _counts(subscription: Json) -> list[object]:
    metrics = subscription["metrics"]
    return [metrics.get(name, "") for name in ("delivered", "discarded", "lag")]

"""`angelia subscription …`."""

import asyncio
from typing import Annotated

import typer

from app.cli import output
from app.cli.bodies import new_subscription
from app.cli.client import Api, Json
from app.cli.options import ApiOption, JsonOption, SubscriptionArgument, TopicArgument, address
from app.cli.signing import signing_secrets

subscriptions = typer.Typer(
    no_args_is_help=True,
    help="Subscriptions: list, create, show, suspend, activate, delete; their signing secrets.",
)
subscriptions.add_typer(signing_secrets, name="secrets")


@subscriptions.command("list")
def list_subscriptions(
    topic: TopicArgument, *, api: ApiOption = None, as_json: JsonOption = False
) -> None:
    """List a topic's subscriptions with their state and counts."""
    found = asyncio.run(_list(address(api), topic))
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
def create(
    topic: TopicArgument,
    name: SubscriptionArgument,
    endpoint: Annotated[str, typer.Argument(help="URL that messages are POSTed to.")],
    *,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    rate: Annotated[int | None, typer.Option(min=1, help="Requests a second, at most.")] = None,
    api: ApiOption = None,
) -> None:
    """Subscribe an endpoint to a topic: it gets what is published from now on."""
    policy: Json = {} if rate is None else {"rate": rate}
    body = new_subscription(topic, name, endpoint, description=description, policy=policy)
    asyncio.run(_create(address(api), topic, body))
    output.say(f"Subscribed {name} to {topic}")


@subscriptions.command()
def show(
    topic: TopicArgument,
    name: SubscriptionArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a subscription's settings and counts."""
    found = asyncio.run(_show(address(api), topic, name))
    if as_json:
        output.write_json(found)
    else:
        output.write_fields(found)


@subscriptions.command()
def suspend(topic: TopicArgument, name: SubscriptionArgument, *, api: ApiOption = None) -> None:
    """Stop delivering; what is published meanwhile waits."""
    asyncio.run(_set_state(address(api), topic, name, state="SUSPENDED"))
    output.say(f"Suspended {name}")


@subscriptions.command()
def activate(topic: TopicArgument, name: SubscriptionArgument, *, api: ApiOption = None) -> None:
    """Deliver again, from where it stopped."""
    asyncio.run(_set_state(address(api), topic, name, state="ACTIVE"))
    output.say(f"Activated {name}")


@subscriptions.command()
def delete(topic: TopicArgument, name: SubscriptionArgument, *, api: ApiOption = None) -> None:
    """Unsubscribe."""
    asyncio.run(_delete(address(api), topic, name))
    output.say(f"Deleted {name} of {topic}")


async def _list(url: str, topic: str) -> list[Json]:
    async with Api.at(url) as api:
        return [await _with_metrics(api, topic, name) for name in await api.subscriptions(topic)]


async def _show(url: str, topic: str, name: str) -> Json:
    async with Api.at(url) as api:
        return await _with_metrics(api, topic, name)


async def _with_metrics(api: Api, topic: str, name: str) -> Json:
    metrics = await api.subscription_metrics(topic, name)
    return await api.subscription(topic, name) | {"metrics": metrics}


async def _create(url: str, topic: str, body: Json) -> None:
    async with Api.at(url) as api:
        await api.create_subscription(topic, body)


async def _set_state(url: str, topic: str, name: str, *, state: str) -> None:
    async with Api.at(url) as api:
        await api.set_state(topic, name, state)


async def _delete(url: str, topic: str, name: str) -> None:
    async with Api.at(url) as api:
        await api.delete_subscription(topic, name)


def _counts(subscription: Json) -> list[object]:
    metrics = subscription["metrics"]
    return [metrics.get(name, "") for name in ("delivered", "discarded", "lag")]

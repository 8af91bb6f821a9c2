"""`angelia retransmission …`: retransmissions, which Spark and the workers do."""

from typing import Annotated, Final

import typer

from angelia_client import Retransmission
from app.cli import output
from app.cli.client import WAITING, connected
from app.cli.errors import CliError
from app.cli.options import ApiOption, JsonOption, SubscriptionArgument, TopicArgument
from app.cli.progress import filling

retransmissions = typer.Typer(
    no_args_is_help=True, help="Retransmissions beside live traffic: list, show, wait for, cancel."
)

_DONE: Final = "DONE"

IdArgument = Annotated[str, typer.Argument(help="Id of the retransmission, as listed.")]


@retransmissions.command("list")
def list_retransmissions(
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the retransmissions of a subscription, newest first."""
    with connected(api) as client:
        found = client.retransmissions.all(topic, subscription)
    if as_json:
        output.write_json([each.raw for each in found])
        return
    output.write_table(
        ["ID", "STATE", "ONLY", "FROM", "TO", "MATCHED", "FINISHED"],
        [
            [
                each.id,
                each.state,
                each.only,
                output.local_time(each.since),
                output.local_time(each.until),
                each.counts.matched,
                each.counts.finished,
            ]
            for each in found
        ],
    )


@retransmissions.command()
def show(
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    id_: IdArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the progress of a retransmission."""
    with connected(api) as client:
        found = client.retransmissions.get(topic, subscription, id_=id_)
    output.write_object(found.raw, as_json=as_json)


@retransmissions.command()
def wait(
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    id_: IdArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Wait until a retransmission has ended. Exits with 1 if it failed or was cancelled."""
    with connected(api) as client:
        client.retransmissions.get(topic, subscription, id_=id_)
    ended = followed(api, topic, subscription, id_=id_)
    report_end(ended, as_json=as_json)


@retransmissions.command()
def cancel(
    topic: TopicArgument,
    subscription: SubscriptionArgument,
    id_: IdArgument,
    *,
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a retransmission: messages not sent yet are dropped, those in flight are completed."""
    with connected(api) as client:
        cancelled = client.retransmissions.cancel(topic, subscription, id_=id_)
    output.write_done(f"Cancelled {id_}", cancelled.raw, as_json=as_json)


def followed(api: str | None, topic: str, subscription: str, *, id_: str) -> Retransmission:
    """Show the progress of a retransmission until it has ended. Return the ended retransmission."""
    with connected(api, retries=WAITING) as client, filling(id_) as update:
        for found in client.retransmissions.follow(topic, subscription, id_=id_):
            update(found.progress, found.waiting_for or found.state)
            if found.ended:
                return found
    raise CliError(f"Nothing is heard of {id_} any more")


def report_end(ended: Retransmission, *, as_json: bool) -> None:
    """Print how a retransmission ended.

    Raises:
        CliError: The retransmission was not done.
    """
    counts = ended.counts
    gone = f" ({counts.gone} are neither in the log nor in the archive)" if counts.gone else ""
    blind = f" ({counts.untraced} are not traced: not looked at)" if counts.untraced else ""
    done = f"{counts.finished} of {counts.matched} messages"
    words = f"{ended.id} is {ended.state}: {done}{gone}{blind}"
    output.write_done(words, ended.raw, as_json=as_json)
    if ended.state != _DONE:
        raise CliError(ended.reason or f"It was not done: it is {ended.state}")

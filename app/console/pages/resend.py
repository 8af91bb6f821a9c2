"""The page *Send again*: the reader chooses messages, counts them first, and sends them again.

The URL has the choice, so that a colleague can open the same page. A dry run counts the chosen
messages. The parameter `looked` of the URL is the id of the dry run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from app.console import words
from app.console.api import ApiRefusedError, Call, call_of, path_of
from app.console.forms import (
    NO_PROBLEMS,
    Field,
    Problems,
    SentForm,
    as_filled,
    as_is,
    body_of,
    decimal,
    json_object,
    numbers,
    problems_in,
    without_nulls,
)
from app.console.view import PageRoute, PageView, Redirect, Result, ShownPage
from app.domain.replay.retransmission import SHARE_DEFAULT, SHARE_MIN, messages_per_second

_LISTED_MAX: Final = 10
# The maximum length of the reader's choice in a URL. Servers and proxies accept URLs of up to 8 KB.
_CHOICE_MAX: Final = 4_000
_TOO_LONG: Final = "This is too much for a form. Use the API, or `angelia retransmit`."


def _words(text: str) -> list[str]:
    return text.split()


FIELDS: Final[Sequence[Field]] = (
    Field(
        path="only",
        label="Which messages",
        kind="choice",
        choices=("undelivered", "missing", "all"),
        hint="undelivered: recorded as discarded, and not sent again since. missing: neither"
        " delivered nor recorded. all: everything of that time.",
    ),
    Field(
        path="from",
        label="From",
        required=True,
        hint="-30m, -6h, -2d, or a time such as 2026-01-31T12:00:00Z.",
    ),
    Field(path="to", label="To", optional=True, hint="Now, if it is empty."),
    Field(
        path="statusCodes",
        label="Answered with",
        optional=True,
        read=numbers,
        hint="Undelivered only: the last answers of the endpoint, such as 500, 503.",
    ),
    Field(
        path="reason",
        label="Reason has",
        optional=True,
        hint="Undelivered only: a part of the reason.",
    ),
    Field(path="messageIds", label="Message ids", optional=True, read=_words),
    Field(path="keys", label="Partition keys", optional=True, read=_words),
    Field(
        path="filter",
        label="Filter",
        kind="area",
        optional=True,
        read=json_object,
        hint='Beside the filters of the subscription: {"type": "jsonpath", "path": "$.country",'
        ' "matcher": "PL"}',
    ),
    Field(
        path="share",
        label="Share of the rate",
        kind="number",
        read=decimal,
        optional=True,
        hint="0.01 to 1: how much of the rate it may use beside new messages.",
    ),
    Field(
        path="rate",
        label="Messages per second, at most",
        kind="number",
        read=decimal,
        optional=True,
        hint="It never sends more than its share. If this is empty, only the share is the limit.",
    ),
)
# The states of a retransmission that can be cancelled.
_OPEN: Final = ("REQUESTED", "READING", "SENDING")
_PATHS: Final = tuple(each.path for each in FIELDS)
# The same fields, but their texts are not converted. So the form shows each text as the reader
# wrote it.
_AS_GIVEN: Final = tuple(replace(each, read=as_is) for each in FIELDS)


async def show(view: PageView) -> ShownPage:
    """Show the form in which the reader chooses messages, with the values from the URL.

    The page also shows the result of the dry run for this choice, and the newest retransmissions.
    """
    given = {name: view.query.get(name, "") for name in _PATHS}
    return await _page(view, given, NO_PROBLEMS)


async def send(view: PageView) -> Result:
    """Start a retransmission of the chosen messages, or a dry run that only counts them."""
    texts = {name: view.form[name] for name in _PATHS}
    dry_run = view.form["do"] != "send"
    if dry_run and len(urlencode(texts)) > _CHOICE_MAX:
        return await _page(view, texts, Problems(others=[_TOO_LONG]), status=400)
    try:
        answer = await view.api.run(_retransmission(view, view.form, dry_run=dry_run))
    except ApiRefusedError as error:
        return await _page(view, texts, problems_in(error, _PATHS), status=error.status)
    made = answer.headers["location"].rpartition("/")[2]
    if dry_run:
        return Redirect(to=_here(view, **{**texts, "looked": made}))
    return Redirect(to=_here(view, done="resending"))


def _retransmission(view: PageView, form: SentForm, *, dry_run: bool) -> Call:
    body = {**without_nulls(body_of(FIELDS, form)), "dryRun": dry_run}
    return call_of("POST", f"{view.subscription_path}/retransmission", body)


def _cancellation(view: PageView, retransmission: str) -> Call:
    path = f"{view.subscription_path}/retransmissions{path_of(retransmission)}"
    return call_of("DELETE", path)


async def cancel(view: PageView) -> Result:
    """Cancel a retransmission."""
    await view.api.run(_cancellation(view, view.params["retransmission"]))
    return Redirect(to=_here(view, done="cancelled"))


def _here(view: PageView, **query: str) -> str:
    return view.link.subscription(view.topic, view.name, "resend", **query)


async def _page(
    view: PageView, current: Mapping[str, str], problems: Problems, *, status: int = 200
) -> ShownPage:
    path = f"{view.subscription_path}/retransmissions"
    subscription = await view.api.get(view.subscription_path)
    rate = subscription["subscriptionPolicy"]["rate"]
    looked = view.query.get("looked")
    dry_run = await view.api.get(f"{path}{path_of(looked)}") if looked else None
    items = await _under_way(view, path)
    rights = await view.rights(view.topic, view.name)
    return ShownPage(
        template="resend.html",
        title=f"Send again to {view.name}",
        section="topics",
        status=status,
        context={
            "topic": view.topic,
            "name": view.name,
            "fields": _fields(current["share"], rate),
            "current": current,
            "problems": problems,
            "dry_run": dry_run,
            "rate": rate,
            "pace": _pace(dry_run, rate) if dry_run else None,
            "items": items,
            "rights": rights,
        },
        live={"looked": "resend_looked.html", "items": "resend_items.html"},
        forms=_forms(view, current, items) if rights.subscription else (),
    )


def _forms(
    view: PageView, current: Mapping[str, str], items: Sequence[Mapping[str, Any]]
) -> Sequence[Call]:
    filled = as_filled(_AS_GIVEN, current)
    open_ones = [each["id"] for each in items if each["state"] in _OPEN]
    return (
        _retransmission(view, filled, dry_run=True),
        _retransmission(view, filled, dry_run=False),
        *(_cancellation(view, each) for each in open_ones[:1]),
    )


def _fields(share: str, rate: int) -> Sequence[Field]:
    """Return the fields, with the share of the subscription's rate in messages per second."""
    part = _share_of(share)
    about = f" The rate is {words.rate(rate)} now: {part:g} of it is {words.rate(part * rate)}."
    return [
        replace(each, hint=each.hint + about) if each.path == "share" else each
        for each in _AS_GIVEN
    ]


def _share_of(text: str) -> float:
    """Return the share in the form; the API's default, if the form has no valid share."""
    share = decimal(text)
    return share if isinstance(share, float) and SHARE_MIN <= share <= 1 else SHARE_DEFAULT


def _pace(dry_run: Mapping[str, Any], rate: int) -> float:
    """Return how many messages are sent per second, if `rate` is the rate of the subscription."""
    return messages_per_second(rate, share=dry_run["share"], rate_max=dry_run.get("rate"))


async def _under_way(view: PageView, path: str) -> Sequence[Mapping[str, Any]]:
    found = await view.api.get(path, {"limit": 2 * _LISTED_MAX})
    return [each for each in found if not each["dryRun"]][:_LISTED_MAX]


_PATH: Final = "/topics/{topic}/subscriptions/{name}/resend"
ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path=_PATH, show=show, submit=send),
    PageRoute(path=f"{_PATH}/{{retransmission}}/cancel", submit=cancel),
)

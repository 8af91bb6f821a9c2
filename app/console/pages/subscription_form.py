"""The forms that create and change a subscription. Changes are shown before they are saved."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from app.console.api import call_of
from app.console.edits import (
    EditForm,
    NewForm,
    check_of,
    filled_body,
    more_field,
    shown_or_created,
    shown_or_saved,
)
from app.console.forms import (
    NO_PROBLEMS,
    Field,
    Problems,
    at_path,
    decimal,
    json_object,
    numbers,
    whole,
)
from app.console.prefill import NO_PREFILL, RATE_ENOUGH, Prefill, prefill_of
from app.console.view import PageRoute, PageView, Result, ShownPage

_POLICY: Final = "subscriptionPolicy"
RATE: Final = f"{_POLICY}.rate"
_NAME: Final = Field(
    path="name", group="Where to", label="Name", required=True, hint="Such as billing."
)
_START: Final = Field(
    path="startFrom",
    group="Where to",
    label="Starts with",
    optional=True,
    hint="latest: what is published from now on. Or earliest, or a time such as -6h or -2d.",
)
FIELDS: Final[Sequence[Field]] = (
    Field(
        path="endpoint",
        group="Where to",
        label="Endpoint",
        required=True,
        hint="Where messages are sent by POST. It may have {placeholders} for fields of the body.",
        linked=False,
    ),
    Field(
        path="owner.id",
        group="Where to",
        label="Owner",
        optional=True,
        hint="The team that people ask about it.",
    ),
    Field(path="description", group="Where to", label="Description", kind="area"),
    Field(
        path=RATE,
        group="How fast",
        label="Rate, at most",
        kind="number",
        unit="requests a second",
        read=whole,
        hint="Over all workers, retries included.",
    ),
    Field(
        path=f"{_POLICY}.inflightSize",
        group="How fast",
        label="In flight, at most",
        kind="number",
        read=whole,
    ),
    Field(
        path=f"{_POLICY}.adaptiveRate",
        group="How fast",
        label="Send less while the endpoint fails",
        kind="check",
    ),
    Field(
        path="ordering",
        group="How fast",
        label="Order",
        kind="choice",
        choices=("NONE", "KEY", "PARTITION"),
        hint="KEY: messages with one Partition-Key are sent one after the other.",
    ),
    Field(
        path=f"{_POLICY}.requestTimeout",
        group="When it fails",
        label="Timeout of an attempt",
        kind="number",
        unit="ms",
        read=whole,
    ),
    Field(
        path=f"{_POLICY}.messageTtl",
        group="When it fails",
        label="Time to live",
        kind="number",
        unit="s",
        read=whole,
        hint="How long a message is tried before it is undelivered.",
    ),
    Field(
        path=f"{_POLICY}.messageBackoff",
        group="When it fails",
        label="First retry after",
        kind="number",
        unit="ms",
        read=whole,
    ),
    Field(
        path=f"{_POLICY}.backoffMultiplier",
        group="When it fails",
        label="Backoff grows by",
        kind="number",
        unit="times",
        read=decimal,
    ),
    Field(
        path=f"{_POLICY}.maxRetries",
        group="When it fails",
        label="Retries, at most",
        kind="number",
        read=whole,
        optional=True,
        hint="Empty: as many as fit into the time to live.",
    ),
    Field(
        path=f"{_POLICY}.retryClientErrors",
        group="When it fails",
        label="Retry after 4xx, too",
        kind="check",
    ),
    Field(
        path="retryableStatusCodes",
        group="When it fails",
        label="Retried codes",
        read=numbers,
        hint="Codes that are retried besides, such as 408, 409.",
    ),
    Field(
        path="suspendOnGone",
        group="When it fails",
        label="Suspend when the endpoint answers 410",
        kind="check",
    ),
    Field(
        path="deadLetter.topic",
        group="When it fails",
        label="Dead-letter topic",
        optional=True,
        hint="Gets a copy of each discarded message.",
    ),
    Field(
        path="trackingMode",
        group="What it gets",
        label="Traces",
        kind="choice",
        choices=("trackingAll", "discardedOnly", "trackingOff"),
        hint="trackingAll: the trace of a message shows each attempt, and ledgers and latencies"
        " can be made. discardedOnly: only what it did not get.",
    ),
    Field(
        path="filters",
        group="What it gets",
        label="Filters",
        kind="area",
        read=json_object,
        optional=True,
        hint='A JSON list, such as [{"type": "jsonpath", "path": "$.country", "matcher": "PL"}].',
    ),
    more_field("What it gets", such_as="clientCertificate"),
)
_NEW_FIELDS: Final = (_NAME, _START, *FIELDS)
_NEW: Final[Mapping[str, Any]] = {
    "endpoint": "http://",
    "startFrom": "latest",
    _POLICY: {
        "rate": 400,
        "requestTimeout": 1000,
        "messageTtl": 3600,
        "messageBackoff": 100,
        "backoffMultiplier": 1.0,
        "retryClientErrors": False,
        "inflightSize": 100,
        "adaptiveRate": True,
    },
    "ordering": "NONE",
    "trackingMode": "discardedOnly",
    "suspendOnGone": True,
}


async def show_new(view: PageView) -> ShownPage:
    """Show the form for a new subscription of the topic."""
    topic = await view.api.get(view.topic_path)
    # If all publications of the topic are traced, the form suggests that all deliveries are traced,
    # too.
    traced = topic["trackingMode"] == "trackingAll"
    mode = {"trackingMode": "trackingAll"} if traced else {}
    return await _new_page(view, {**_NEW, **mode}, NO_PROBLEMS)


async def create(view: PageView) -> Result:
    """Create a subscription, and redirect to the subscription's page."""
    name = view.form["name"].strip()
    return await shown_or_created(
        view,
        NewForm(
            path=f"{view.topic_path}/subscriptions",
            page=view.link.subscription(view.topic, name, done="created"),
            fields=_NEW_FIELDS,
            show=partial(_new_page, view),
        ),
    )


async def show_edit(view: PageView) -> ShownPage:
    """Show the form with the subscription's current settings, and with values from the link."""
    current = await view.api.get(view.subscription_path)
    prefill = prefill_of(FIELDS, current, view.query)
    if view.query.get("why") == "loss" and not raises_rate(prefill, current):
        prefill = Prefill(note=RATE_ENOUGH)
    return await _edit_page(view, prefill.over(current), NO_PROBLEMS, prefill=prefill)


async def check_or_save(view: PageView) -> Result:
    """Show the differences that the form makes. If the reader has confirmed them, save them."""
    return await shown_or_saved(
        view,
        EditForm(
            path=view.subscription_path,
            name=view.name,
            page=partial(view.link.subscription, view.topic, view.name),
            form=view.link.subscription(view.topic, view.name, "edit"),
            fields=FIELDS,
            show=partial(_edit_page, view),
            tidied=_tidied,
        ),
    )


def raises_rate(prefill: Prefill, current: Mapping[str, Any]) -> bool:
    """Return whether a link suggests a higher rate than the subscription has in `current`."""
    suggested = at_path(prefill.patch, RATE)
    return isinstance(suggested, int) and suggested > at_path(current, RATE)


def _tidied(patch: dict[str, Any]) -> dict[str, Any]:
    if isinstance(patch.get("deadLetter"), dict) and patch["deadLetter"].get("topic") is None:
        patch["deadLetter"] = None
    if "filters" in patch and patch["filters"] is None:
        patch["filters"] = []
    return patch


async def _new_page(
    view: PageView, current: Mapping[str, Any], problems: Problems, *, status: int = 200
) -> ShownPage:
    rights = await view.rights(view.topic)
    body = filled_body(_NEW_FIELDS, current)
    created = call_of("POST", f"{view.topic_path}/subscriptions", body)
    return ShownPage(
        template="subscription_new.html",
        title=f"New subscription of {view.topic}",
        section="topics",
        status=status,
        context={
            "topic": view.topic,
            "fields": _NEW_FIELDS,
            "current": current,
            "problems": problems,
            "rights": rights,
        },
        forms=[created] if rights.create else (),
    )


async def _edit_page(
    view: PageView,
    current: Mapping[str, Any],
    problems: Problems,
    *,
    status: int = 200,
    prefill: Prefill = NO_PREFILL,
) -> ShownPage:
    rights = await view.rights(view.topic, view.name)
    changed = check_of(view.subscription_path, FIELDS, current)
    return ShownPage(
        template="subscription_edit.html",
        title=f"Change {view.name}",
        section="topics",
        status=status,
        context={
            "topic": view.topic,
            "name": view.name,
            "fields": FIELDS,
            "current": current,
            "problems": problems,
            "prefill": prefill,
            "rights": rights,
        },
        forms=[changed] if rights.subscription else (),
    )


_PATH: Final = "/topics/{topic}/subscriptions/{name}/edit"
ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics/{topic}/new-subscription", show=show_new, submit=create),
    PageRoute(path=_PATH, show=show_edit, submit=check_or_save),
)

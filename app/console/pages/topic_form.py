"""The forms that create and change a topic. Changes are shown before they are saved."""

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
    whole,
    words_in,
)
from app.console.prefill import NO_PREFILL, Prefill, prefill_of
from app.console.view import PageRoute, PageView, Result, ShownPage

_NAME: Final = Field(
    path="name",
    group="What it is",
    label="Name",
    required=True,
    hint="group.topic, such as shop.orders. The group is created with its first topic.",
)
_SCHEMA: Final = Field(
    path="schema",
    group="What is published",
    label="JSON Schema",
    kind="area",
    optional=True,
    hint="Messages that do not fit are refused. Leave it empty to take any JSON.",
)
_MORE_FIELD: Final = more_field("What is published", such_as="deduplication")
FIELDS: Final[Sequence[Field]] = (
    Field(
        path="description",
        group="What it is",
        label="Description",
        kind="area",
        hint="What its messages say.",
    ),
    Field(
        path="owner.id",
        group="What it is",
        label="Owner",
        optional=True,
        hint="The team that people ask about it.",
    ),
    Field(
        path="retentionTime.duration",
        group="In the log",
        label="Kept for",
        kind="number",
        read=whole,
        optional=True,
        hint="How long the log has its messages. It bounds how far back a replay reaches.",
    ),
    Field(
        path="retentionTime.retentionUnit",
        group="In the log",
        label="Kept for, in",
        kind="choice",
        choices=("DAYS", "HOURS", "MINUTES", "SECONDS"),
        optional=True,
    ),
    Field(
        path="partitions",
        group="In the log",
        label="Partitions",
        kind="number",
        read=whole,
        optional=True,
        hint="How many workers can deliver it at the same time. They never become fewer.",
        linked=False,
    ),
    Field(
        path="ack",
        group="In the log",
        label="Acknowledged by",
        kind="choice",
        choices=("ALL", "LEADER"),
        hint="LEADER is faster, and what only the leader has is lost with it.",
    ),
    Field(
        path="offlineStorage.enabled",
        group="In the log",
        label="Keep an archive",
        kind="check",
        hint="Parquet files, for longer than the log keeps its messages.",
    ),
    Field(
        path="trackingMode",
        group="What is published",
        label="Traces",
        kind="choice",
        choices=("trackingAll", "discardedOnly", "trackingOff"),
        optional=True,
        hint="trackingAll: you can see later what happened to each message.",
    ),
    Field(
        path="maxMessageSize",
        group="What is published",
        label="Largest message",
        kind="number",
        unit="bytes",
        read=whole,
        optional=True,
    ),
    Field(
        path="throughputQuota",
        group="What is published",
        label="At most",
        kind="number",
        unit="bytes a second",
        read=whole,
        optional=True,
        hint="In each API process. Empty: no limit.",
    ),
    Field(
        path="propagatedHeaders",
        group="What is published",
        label="Headers sent on",
        read=words_in,
        hint="Headers of publishers that subscribers get, such as X-Tenant.",
    ),
    Field(
        path="alternateTopic",
        group="What is published",
        label="Alternate topic",
        optional=True,
        hint="Gets what is published with mandatory=true while nobody subscribes.",
    ),
)
_NEW_FIELDS: Final = (_NAME, *FIELDS, _SCHEMA, _MORE_FIELD)
EDIT_FIELDS: Final = (*FIELDS, _MORE_FIELD)
_NEW: Final[Mapping[str, Any]] = {
    "retentionTime": {"duration": 1, "retentionUnit": "DAYS"},
    "partitions": 8,
    "maxMessageSize": 51_200,
    "ack": "ALL",
    "trackingMode": "trackingAll",
}


async def show_new(view: PageView) -> ShownPage:
    """Show the form for a new topic."""
    name = view.query.get("name", "")
    return await _new_page(view, {**_NEW, "name": name}, NO_PROBLEMS)


async def create(view: PageView) -> Result:
    """Create a topic, and redirect to the topic's page."""
    return await shown_or_created(
        view,
        NewForm(
            path="/topics",
            page=view.link.topic(view.form["name"].strip(), done="created"),
            fields=_NEW_FIELDS,
            show=partial(_new_page, view),
        ),
    )


async def show_edit(view: PageView) -> ShownPage:
    """Show the form with the topic's current settings, and with values from the link."""
    current = await view.api.get(view.topic_path)
    prefill = prefill_of(EDIT_FIELDS, current, view.query)
    return await _edit_page(view, prefill.over(current), NO_PROBLEMS, prefill=prefill)


async def check_or_save(view: PageView) -> Result:
    """Show the differences that the form makes. If the reader has confirmed them, save them."""
    return await shown_or_saved(
        view,
        EditForm(
            path=view.topic_path,
            name=view.topic,
            page=partial(view.link.topic, view.topic),
            form=view.link("topics", view.topic, "edit"),
            fields=EDIT_FIELDS,
            show=partial(_edit_page, view),
        ),
    )


async def _new_page(
    view: PageView, current: Mapping[str, Any], problems: Problems, *, status: int = 200
) -> ShownPage:
    may_create = (await view.rights()).create
    created = call_of("POST", "/topics", filled_body(_NEW_FIELDS, current))
    return ShownPage(
        template="topic_new.html",
        title="New topic",
        section="topics",
        status=status,
        context={
            "fields": _NEW_FIELDS,
            "current": current,
            "problems": problems,
            "may_create": may_create,
        },
        forms=[created] if may_create else (),
    )


async def _edit_page(
    view: PageView,
    current: Mapping[str, Any],
    problems: Problems,
    *,
    status: int = 200,
    prefill: Prefill = NO_PREFILL,
) -> ShownPage:
    rights = await view.rights(view.topic)
    changed = check_of(view.topic_path, EDIT_FIELDS, current)
    return ShownPage(
        template="topic_edit.html",
        title=f"Change {view.topic}",
        section="topics",
        status=status,
        context={
            "topic": view.topic,
            "fields": EDIT_FIELDS,
            "current": current,
            "problems": problems,
            "prefill": prefill,
            "rights": rights,
        },
        forms=[changed] if rights.topic else (),
    )


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/new-topic", show=show_new, submit=create),
    PageRoute(path="/topics/{topic}/edit", show=show_edit, submit=check_or_save),
)

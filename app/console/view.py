"""What the function of a page gets, and what it may return."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.console.api import Api, Call, path_of
from app.console.csv_file import CsvFile
from app.console.forms import SentForm
from app.console.histories import ChartSpan, span_of
from app.console.links import Links
from app.domain.access.keys import Caller, Role
from app.services.access.authorization import AccessService, Target

PAGE_SIZE: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What the reader of a page may do.

    `roles` are the reader's roles for the page's topic or subscription. A page shows only the forms
    that these rights allow. When a form is sent, the API checks the rights again.
    """

    roles: frozenset[Role]
    creates: bool
    writable: bool

    @property
    def admin(self) -> bool:
        """Whether the reader is an admin, who may change everything."""
        return self.writable and Role.ADMIN in self.roles

    @property
    def topic(self) -> bool:
        """Whether the reader may change the page's topic."""
        return self.writable and not self.roles.isdisjoint({Role.TOPIC_OWNER, Role.ADMIN})

    @property
    def subscription(self) -> bool:
        """Whether the reader may change the page's subscription."""
        return self.writable and not self.roles.isdisjoint({Role.SUBSCRIPTION_OWNER, Role.ADMIN})

    @property
    def create(self) -> bool:
        """Whether the reader may create some topics or subscriptions. The API checks which ones."""
        return self.writable and self.creates


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """A request for a page. `api` calls the REST API with the reader's API key."""

    caller: Caller
    api: Api
    access: AccessService
    link: Links
    params: Mapping[str, str]
    query: Mapping[str, str]
    # True if only the parts of the page that change are rendered. The data of all other parts are
    # not needed then.
    only_live: bool = False
    form: SentForm = field(default_factory=lambda: SentForm(()))

    @property
    def controlled(self) -> bool:
        """Whether readers must sign in to see pages."""
        return self.access.controlled

    @property
    def topic(self) -> str:
        """The name of the topic, from the path of the page."""
        return self.params["topic"]

    @property
    def name(self) -> str:
        """The name of the subscription, from the path of the page."""
        return self.params["name"]

    @property
    def topic_path(self) -> str:
        """The path of the page's topic in the API."""
        return path_of("topics", self.topic)

    @property
    def subscription_path(self) -> str:
        """The path of the page's subscription in the API."""
        return path_of("topics", self.topic, "subscriptions", self.name)

    async def rights(self, topic: str | None = None, name: str | None = None) -> Rights:
        """Return the reader's rights for a topic, or for a subscription of the topic."""
        target = Target(topic=topic, subscription=name)
        return Rights(
            roles=frozenset(await self.access.roles(self.caller, target)),
            creates=self.caller.grants.owns_some,
            writable=self.writable,
        )

    async def may_publish(self, settings: Mapping[str, Any]) -> bool:
        """Return whether the reader may publish to the topic that has these settings.

        The rule is the same as in `Gate.require`.
        """
        grants, auth = self.caller.grants, settings["auth"]
        if grants.admin:
            return True
        if auth["enabled"]:
            return self.caller.name in auth["publishers"]
        topic = settings["name"]
        owned = Role.TOPIC_OWNER in await self.access.roles(self.caller, Target(topic=topic))
        return owned or grants.publishes_to(topic)

    async def history(self, path: str) -> tuple[ChartSpan, Mapping[str, Any] | None]:
        """Return the time span that the reader has chosen for charts, and the history of this time.

        The history is None if only the changing parts of the page are rendered, because they have
        no charts.
        """
        span = span_of(self.query.get("span", ""))
        if self.only_live:
            return span, None
        query = {"from": span.since, "step": span.step}
        return span, await self.api.find(f"{path}/metrics/history", query)

    @property
    def writable(self) -> bool:
        """Whether the reader may make changes now, in the current mode of the API."""
        return self.access.may_change(self.caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """What a page offers to take back what the reader has just done.

    It is a link to `to`. If `do` is not empty, it is instead a button that sends `do` to `to`.
    """

    to: str
    do: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPage:
    """A page to show: its template, and the values for the template (`context`).

    `live` has the parts of the page that change while it is open. Each key is the id of an HTML
    element, and its value is the template of the part. These templates get the same `context`.

    `forms` has the requests to the API that the page's forms make, as the forms are filled in now.
    The page shows them before anything is sent. If each row of a table has a form, `forms` has only
    that of the first row.

    `undo` is shown beside the message that a form has succeeded.
    """

    template: str
    title: str
    section: str
    context: Mapping[str, Any]
    live: Mapping[str, str] = field(default_factory=dict)
    forms: Sequence[Call] = ()
    undo: Undo | None = None
    status: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """A redirect to another page after a form succeeded. `to` is a relative link."""

    to: str


Result = ShownPage | Redirect | CsvFile
Handler = Callable[[PageView], Awaitable[Result]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRoute:
    """A page of the console. `show` handles a GET, and `submit` handles a form sent by POST."""

    path: str
    show: Handler | None = None
    submit: Handler | None = None


def first_of(query: Mapping[str, str], name: str, allowed: Sequence[str]) -> str:
    """Return the query parameter `name` if its value is in `allowed`.

    Otherwise, return the first value in `allowed`.
    """
    value = query.get(name, "")
    return value if value in allowed else allowed[0]

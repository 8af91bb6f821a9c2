"""`/query`, `/search`, `/stats`, and lists by owner. All are about topics and subscriptions."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from app.api.access import requires
from app.api.dependencies import ServicesOf, TextsWanted, TopicName
from app.api.documented import LINK_HEADER, answers, errors, names_listed, takes
from app.api.lazy_route import LazyRoute
from app.api.management.catalogue.group_bodies import GroupBody
from app.api.management.catalogue.query_bodies import QueryBody, SearchRead, StatsRead
from app.api.management.catalogue.subscription_read import SubscriptionRead, subscription_read
from app.api.management.catalogue.topic_bodies import TopicRead, topic_read
from app.api.management.health import hermes_metrics
from app.api.management.health.hermes_metrics import HermesForm
from app.api.management.health.metrics_bodies import (
    NamedSubscriptionMetricsRead,
    NamedTopicMetricsRead,
)
from app.api.media import LIMIT_MAX, AnswerNotes, answer, json_request, limit_of
from app.api.pages import KeyPageOf, keyed, next_link
from app.domain.access.keys import Role
from app.domain.catalogue.query import Query as CatalogueQuery
from app.domain.catalogue.query import parsed_query
from app.domain.catalogue.topic import Topic
from app.domain.errors import FormatInvalidError, InvalidQueryError, ValidationFailedError
from app.domain.owner import Owner
from app.services.catalogue.listings import FoundPage, Page, Stated
from app.services.metrics.queries import Described
from app.storage.catalogue.listings import Key
from app.storage.slices import made_of

router = APIRouter(tags=["search"], route_class=LazyRoute)

_EXAMPLE: Final = {"query": {"name": {"like": ".*orders"}}}
_TAKES: Final = takes(QueryBody, _EXAMPLE)
_ERRORS: Final = errors(InvalidQueryError, FormatInvalidError, ValidationFailedError)

SourceName = Annotated[str, Path(description="register of owners", examples=["Plaintext"])]
OwnerId = Annotated[str, Path(description="id of the owner")]


async def _page(
    limit: Annotated[
        str | None, Query(description=f"1 to {LIMIT_MAX} of them, {LIMIT_MAX} by default")
    ] = None,
    after: Annotated[str | None, Query(description="from the `Link` of the page before")] = None,
) -> Page:
    key = None if after is None else tuple(after.replace("\0", "").split("/"))
    return Page(limit=LIMIT_MAX if limit is None else limit_of(limit), after=key)


PageOf = Annotated[Page, Depends(_page)]


@router.post(
    "/query/groups",
    dependencies=[requires(Role.ANY, writes=False)],
    responses=answers(GroupBody, many=True) | _ERRORS,
    openapi_extra=takes(QueryBody, {"query": {"groupName": {"like": "shop.*"}}}),
)
async def query_groups(request: Request, services: ServicesOf) -> Response:
    """Return the groups that match a query, by name."""
    names = await services.catalogue.groups(await _requested(request))
    return answer([GroupBody(group_name=name).answered() for name in names])


@router.post(
    "/query/topics",
    dependencies=[requires(Role.ANY, writes=False)],
    responses=answers(TopicRead, many=True, headers=LINK_HEADER) | _ERRORS,
    openapi_extra=_TAKES,
)
async def query_topics(request: Request, services: ServicesOf, page: PageOf) -> Response:
    """Return the topics that match a query, by name; `Link` leads to the next page."""
    found = await services.catalogue.topics(await _requested(request), _keyed(page, 1))
    link = next_link(request, "/".join(found.after)) if found.after else {}
    return answer(await _topics(found.items), notes=AnswerNotes(extra=link))


@router.post(
    "/query/subscriptions",
    dependencies=[requires(Role.ANY, writes=False)],
    responses=answers(SubscriptionRead, many=True, headers=LINK_HEADER) | _ERRORS,
    openapi_extra=takes(QueryBody, {"query": {"endpoint": {"like": ".*shop.*"}}}),
)
async def query_subscriptions(request: Request, services: ServicesOf, page: PageOf) -> Response:
    """Return the subscriptions that match a query, by topic and name, in pages."""
    found = await services.catalogue.subscriptions(await _requested(request), _keyed(page, 2))
    link = next_link(request, "/".join(found.after)) if found.after else {}
    return answer(await _stated(found.items), notes=AnswerNotes(extra=link))


@router.post(
    "/query/topics/metrics",
    dependencies=[requires(Role.ANY, writes=False)],
    responses=answers(NamedTopicMetricsRead, many=True, headers=LINK_HEADER) | _ERRORS,
    openapi_extra=takes(QueryBody, {"query": {"deliveryRate": {"gt": 100}}}),
)
async def query_topic_metrics(
    request: Request, services: ServicesOf, *, page: PageOf, texts: TextsWanted
) -> Response:
    """Return the metrics of topics that match a query over metrics, by name, in pages.

    `Prefer: figures=texts` requests Hermes' form.
    """
    requested = await _requested(request)
    found = await services.catalogue_figures.topics(requested, _keyed(page, 1))
    return _described(request, found, hermes_metrics.NAMED_TOPIC if texts else None)


@router.post(
    "/query/subscriptions/metrics",
    dependencies=[requires(Role.ANY, writes=False)],
    responses=answers(NamedSubscriptionMetricsRead, many=True, headers=LINK_HEADER) | _ERRORS,
    openapi_extra=takes(QueryBody, {"query": {"lag": {"gt": 1000}}}),
)
async def query_subscription_metrics(
    request: Request, services: ServicesOf, *, page: PageOf, texts: TextsWanted
) -> Response:
    """Return the metrics of subscriptions that match a query over metrics, in pages.

    `Prefer: figures=texts` requests Hermes' form.
    """
    requested = await _requested(request)
    found = await services.catalogue_figures.subscriptions(requested, _keyed(page, 2))
    return _described(request, found, hermes_metrics.NAMED_SUBSCRIPTION if texts else None)


@router.post(
    "/topics/query",
    dependencies=[requires(Role.ANY, writes=False)],
    responses=names_listed() | _ERRORS,
    openapi_extra=_TAKES,
)
async def query_topic_names(
    request: Request,
    services: ServicesOf,
    *,
    groupName: str | None = None,  # noqa: N803 - the parameter has Hermes' name
) -> Response:
    """Return the names of topics that match a query, in all groups or in one.

    An empty `groupName` means all groups.
    """
    group = groupName.replace("\0", "") if groupName else None
    names = await services.catalogue.topic_names(await _requested(request), group=group)
    return answer(list(names))


@router.post(
    "/topics/{topic}/subscriptions/query",
    dependencies=[requires(Role.ANY, writes=False)],
    responses=names_listed() | _ERRORS | errors(404),
    openapi_extra=_TAKES,
)
async def query_subscription_names(
    request: Request, topic: TopicName, services: ServicesOf
) -> Response:
    """Return the names of the topic's subscriptions that match a query."""
    names = await services.catalogue.subscription_names(topic, await _requested(request))
    return answer(list(names))


@router.get(
    "/topics/owner/{source}/{owner}",
    dependencies=[requires(Role.ANY)],
    responses=answers(TopicRead, many=True, headers=LINK_HEADER) | errors(400),
)
async def topics_of_owner(
    request: Request, source: SourceName, owner: OwnerId, *, services: ServicesOf, page: KeyPageOf
) -> Response:
    """Return the topics of an owner, by name, all or in pages."""
    wanted = Owner(source=source, id=owner)
    found = await services.catalogue.topics_of(wanted, keyed(page, 1))
    return answer(await _topics(found.items), notes=_next(request, found.after))


@router.get(
    "/subscriptions/owner/{source}/{owner}",
    dependencies=[requires(Role.ANY)],
    responses=answers(SubscriptionRead, many=True, headers=LINK_HEADER) | errors(400),
)
async def subscriptions_of_owner(
    request: Request, source: SourceName, owner: OwnerId, *, services: ServicesOf, page: KeyPageOf
) -> Response:
    """Return the subscriptions of an owner, by topic and name, all or in pages."""
    wanted = Owner(source=source, id=owner)
    found = await services.catalogue.subscriptions_of(wanted, keyed(page, 2))
    return answer(await _stated(found.items), notes=_next(request, found.after))


@router.get(
    "/topics/{topic}/clients",
    dependencies=[requires(Role.ANY)],
    responses=names_listed() | errors(404),
)
async def clients_of_topic(topic: TopicName, services: ServicesOf) -> Response:
    """Return the ids of the owners of the topic's subscriptions, each id once."""
    return answer(list(await services.catalogue.clients(topic)))


@router.get(
    "/search/query",
    dependencies=[requires(Role.ANY)],
    responses=answers(SearchRead, headers=LINK_HEADER) | errors(400),
)
async def search(
    request: Request,
    services: ServicesOf,
    *,
    q: Annotated[str, Query(description="part of a name, an owner's id, or an endpoint")] = "",
    limit: Annotated[
        str | None, Query(description=f"1 to {LIMIT_MAX} results, {LIMIT_MAX} by default")
    ] = None,
    after: Annotated[str | None, Query(description="from the `Link` of the page before")] = None,
) -> Response:
    """Return topics and subscriptions with a text in a name, owner id or endpoint, in any case.

    Topics come first, by name, then subscriptions, by topic and name. A blank text finds nothing.
    """
    wanted = LIMIT_MAX if limit is None else limit_of(limit)
    key = _last_key(after)
    text = q.strip()
    if not text or "\0" in text:
        return answer(SearchRead(results=[], total_count=0))
    hits = await services.catalogue.search(text, limit=wanted, after=key)
    return answer(SearchRead.of(hits), notes=_next(request, hits.after))


@router.get("/stats", dependencies=[requires(Role.ANY)], responses=answers(StatsRead) | errors())
async def stats(services: ServicesOf) -> Response:
    """Return how many topics and subscriptions there are."""
    return answer(StatsRead.of(await services.catalogue.counted()))


async def _requested(request: Request) -> CatalogueQuery:
    return parsed_query((await json_request(request)).body)


def _last_key(after: str | None) -> Key | None:
    """Parse the key of the last item on the previous page: the names of a topic or a subscription.

    Raises:
        ValidationFailedError: The text is not the key of a topic or a subscription.
    """
    if after is None:
        return None
    key = tuple(after.replace("\0", "").split("/"))
    if len(key) > 2:  # noqa: PLR2004 - a key has the names of topic and subscription
        raise ValidationFailedError.of("after", "must be from the page before")
    return key


def _next(request: Request, after: Key | None) -> AnswerNotes:
    return AnswerNotes(extra=next_link(request, "/".join(after)) if after else {})


def _described(request: Request, found: FoundPage[Described], form: HermesForm | None) -> Response:
    link = next_link(request, "/".join(found.after)) if found.after else {}
    items = list(found.items) if form is None else [form.of(each) for each in found.items]
    return answer(items, notes=AnswerNotes(extra=link))


def _keyed(page: Page, width: int) -> Page:
    """Return the page, after a check of its key: the key of the last item on the previous page.

    The key must have `width` parts, for example 2 for a topic and a name.

    Raises:
        ValidationFailedError: The key has another number of parts.
    """
    if page.after is not None and len(page.after) != width:
        raise ValidationFailedError.of("after", "must be from the page before")
    return page


async def _topics(found: Sequence[Topic]) -> list[dict[str, Any]]:
    return await made_of(found, lambda each: topic_read(each).answered())


async def _stated(found: Sequence[Stated]) -> list[dict[str, Any]]:
    return await made_of(found, lambda each: subscription_read(*each).answered())

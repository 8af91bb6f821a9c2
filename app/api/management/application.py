"""The management routes as one FastAPI application."""

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from app.api.access import require_roles
from app.api.body import ClientGoneError
from app.api.dependencies import Services
from app.api.docs_page import docs_routes
from app.api.errors import install_error_handlers
from app.api.hermes import compatibility, console
from app.api.management.access import audit, keys, roles
from app.api.management.catalogue import (
    filters,
    groups,
    oauth,
    operations,
    owners,
    queries,
    schemas,
    signing,
    subscriptions,
    topics,
)
from app.api.management.discards import undelivered
from app.api.management.health import health, metrics_history, settings, status, workers
from app.api.management.insight import analytics, archives, jobs, ledgers, simulations
from app.api.management.inspection import messages, pings, previews, retries, traces
from app.api.management.replay import republishing, retransmission, retransmissions
from app.api.slashes import redirect_slashes

TITLE: Final = "Angelia"
VERSION: Final = "1"
DESCRIPTION: Final = (
    "HTTP push delivery: publish to topics, and every subscriber gets every message by POST, "
    "at the speed it can take."
)

PUBLISH_PATH: Final = "/topics/{topic}"
BATCH_PATH: Final = "/topics/{topic}/batch"
ROUTERS: Final[tuple[APIRouter, ...]] = (
    groups.router,
    # The routes for queries come before the routes for topics. The path of a query has a fixed word
    # at the place of the topic's name.
    queries.router,
    topics.router,
    schemas.router,
    subscriptions.router,
    signing.router,
    pings.router,
    oauth.router,
    retransmission.router,
    retransmissions.router,
    ledgers.router,
    ledgers.keys,
    simulations.router,
    filters.router,
    undelivered.router,
    retries.router,
    traces.router,
    messages.router,
    previews.router,
    archives.router,
    health.router,
    workers.router,
    settings.router,
    metrics_history.router,
    jobs.router,
    analytics.router,
    operations.router,
    compatibility.router,
    republishing.router,
    roles.router,
    owners.router,
    console.router,
    keys.router,
    audit.router,
)

# The routers that get the most requests during deliveries. They come first, because a request is
# compared with one route after the other.
_OFTEN: Final = (undelivered.router, traces.router)


def management_app(
    services: Services | None = None,
    *,
    publish: ASGIApp | None = None,
    batch: ASGIApp | None = None,
    status_only: bool = False,
) -> FastAPI:
    """Return the application with `services`. Without services, it can only describe itself.

    `publish` handles publishing, and `batch` handles publishing of batches. The `Allow` header
    names their methods, too. With `status_only`, the application serves only publishing and
    `/status`, for a process that only publishes.
    """
    app = FastAPI(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        # Switch off FastAPI's pages, which load scripts from a public CDN; see `app.api.docs_page`.
        docs_url=None,
        redoc_url=None,
        openapi_url=None if status_only else "/openapi.json",
        redirect_slashes=False,
    )
    redirect_slashes(app)
    app.state.services = services
    install_error_handlers(app)
    app.add_exception_handler(ClientGoneError, _on_gone)
    for router in (status.router,) if status_only else (status.router, *_routers(services)):
        require_roles(router.routes)
        # The routes are added unchanged. `include_router` would create a copy of each route, and
        # check each route for duplicates.
        app.routes.extend(router.routes)
    if not status_only:
        app.routes.extend(docs_routes())
    if publish:
        app.routes.append(Route(PUBLISH_PATH, publish, methods=["POST"], include_in_schema=False))
    if batch:
        app.routes.append(Route(BATCH_PATH, batch, methods=["POST"], include_in_schema=False))
    return app


def _routers(services: Services | None) -> Sequence[APIRouter]:
    """Return the routers. Without services, they are in the order of the OpenAPI document.

    With services, the routers that get the most requests come first.
    """
    if services is None:
        return ROUTERS
    return (*_OFTEN, *(each for each in ROUTERS if each not in _OFTEN))


async def _on_gone(_request: Request, _error: Exception) -> Response:
    # Nothing is logged, because the client closed the connection. That is not an error of the
    # service.
    return Response(status_code=400)

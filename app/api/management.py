"""The management routes as one FastAPI application."""

from typing import Final

from fastapi import APIRouter, FastAPI

from app.api.dependencies import Services
from app.api.errors import install_error_handlers
from app.api.routes import groups, status, subscriptions, topics, undelivered

TITLE: Final = "Angelia"
VERSION: Final = "1"
DESCRIPTION: Final = (
    "HTTP push delivery: publish to topics, and every subscriber gets every message by POST, "
    "at the speed it can take."
)

ROUTERS: Final[tuple[APIRouter, ...]] = (
    groups.router,
    topics.router,
    subscriptions.router,
    undelivered.router,
)


def management_app(services: Services | None = None, *, status_only: bool = False) -> FastAPI:
    """The application over `services`; without any it can only describe itself.

    `status_only` leaves all but `/status` out, for a process that only publishes.
    """
    app = FastAPI(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        # The usual pages load their scripts from a public CDN.
        docs_url=None,
        redoc_url=None,
        openapi_url=None if status_only else "/openapi.json",
    )
    app.state.services = services
    install_error_handlers(app)
    for router in (status.router,) if status_only else (status.router, *ROUTERS):
        app.include_router(router)
    return app

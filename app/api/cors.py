"""CORS: pages of other origins that the operator allows may call the API from a browser."""

from collections.abc import Sequence
from typing import Final

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
# The headers of a response that a page of another origin may read.
EXPOSED: Final = (
    "Angelia-Alternate-Topic",
    "Angelia-Applied",
    "Angelia-Duplicate",
    "Angelia-Ignored-Fields",
    "Angelia-Repeated",
    "Angelia-Subscriptions",
    "Angelia-Trace",
    "Angelia-Traces-Lost",
    "ETag",
    "Hermes-Message-Id",
    "Link",
    "Location",
    "Retry-After",
    "Schema-Id",
    "Schema-Version",
)
REMEMBERED_S: Final = 3600


def with_origins(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Return `app` with access for pages of these origins; `app` itself if there are none.

    Browsers need not send cookies or other credentials, because scripts send API keys in a header.
    """
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=METHODS,
        allow_headers=["*"],
        expose_headers=EXPOSED,
        max_age=REMEMBERED_S,
    )

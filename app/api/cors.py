"""Pages of other origins, where the operator lets them call the API from a browser."""

from collections.abc import Sequence
from typing import Final

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
# What a page may read beside the body.
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
    """`app`, for pages of these origins too; itself, as it is, when there are none.

    Keys are sent by scripts, in a header: no cookies, and so no credentials of the browser.
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

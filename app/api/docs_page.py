"""`/docs`: the API for people to read and try, with Swagger UI from installed files.

The page loads nothing from other servers and has no inline scripts, so its security policy forbids
both. All links of the page are relative, so it works behind any path prefix of a proxy. The page
shows no data and needs no key. Calls from the page use the key that the user enters.
"""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

_JAVASCRIPT: Final = "text/javascript"
# The package whose static files are served. The paths below are paths in that package. The code of
# the package is not run.
_PACKAGE: Final = "fastapi_offline"
_FILES: Final[Mapping[str, str]] = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": _JAVASCRIPT,
}
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        # Inline styles are allowed, because Swagger UI sets styles of single elements.
        "style-src 'self' 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
# Browsers cache the files only for a short time, because another release may have other files under
# the same names.
_CACHED: Final = {"Cache-Control": "max-age=600"}

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Angelia: REST API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<noscript>This page needs JavaScript. What it shows is at <a href="openapi.json">openapi.json</a>.
</noscript>
<div id="api"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
# All URLs are relative, because a proxy may have removed a path prefix. The API is next to this
# page.
_START: Final = """"use strict";
fetch("openapi.json")
  .then((answer) => answer.json())
  .then((spec) => {
    const beside = new URL(".", document.baseURI).pathname.replace(/[/]$/, "");
    SwaggerUIBundle({
      dom_id: "#api",
      spec: { ...spec, servers: [{ url: beside || "/" }] },
      deepLinking: true,
      docExpansion: "none",
      filter: true,
      validatorUrl: null,
    });
  })
  .catch((problem) => {
    document.getElementById("api").textContent = "openapi.json could not be read: " + problem;
  });
"""


def docs_routes() -> list[Route]:
    """Return the routes of the page and its files.

    Raises:
        LookupError: The files are not installed.
    """
    return [
        Route("/docs", _page, include_in_schema=False),
        Route("/docs/", _to_page, include_in_schema=False),
        Route("/docs/start.js", _start, include_in_schema=False),
        *(_file_route(name, media) for name, media in _FILES.items()),
    ]


def _file_route(name: str, media: str) -> Route:
    file = Path(str(files(_PACKAGE) / "static" / name))
    if not file.is_file():
        raise LookupError(f"{file} is missing: install {_PACKAGE} as requirements.lock has it")

    async def answered(_request: Request) -> Response:
        return FileResponse(file, headers={**_HEADERS, **_CACHED}, media_type=media)

    return Route(f"/docs/{name}", answered, include_in_schema=False)


async def _page(_request: Request) -> Response:
    return HTMLResponse(_PAGE, headers=_HEADERS)


async def _to_page(_request: Request) -> Response:
    # The redirect goes to a relative URL, like all links of the page.
    return RedirectResponse("../docs")


async def _start(_request: Request) -> Response:
    return Response(_START, headers={**_HEADERS, **_CACHED}, media_type=_JAVASCRIPT)

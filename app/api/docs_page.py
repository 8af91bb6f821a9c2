"""`/docs`: the API for people to read and to try, by Swagger UI out of files installed with us.

Nothing is loaded from elsewhere and no script stands in the page, so that it may forbid both. What
it names, it names relative to itself: it works behind any prefix of a proxy. It shows no data, so
it takes no key; what is tried there takes the key that is given to it.
"""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

_JAVASCRIPT: Final = "text/javascript"
# The package has them as files, under these names, and is not run.
_PACKAGE: Final = "fastapi_offline"
_FILES: Final[Mapping[str, str]] = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": _JAVASCRIPT,
}
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        # Swagger UI writes styles of single elements.
        "style-src 'self' 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
# Another release of us may have others under the same names.
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
# A proxy may have taken a prefix off the path: the API is beside this page, wherever that is.
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
    """The page and what it names; LookupError when its files are not installed."""
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
    # Relative, as all is.
    return RedirectResponse("../docs")


async def _start(_request: Request) -> Response:
    return Response(_START, headers={**_HEADERS, **_CACHED}, media_type=_JAVASCRIPT)

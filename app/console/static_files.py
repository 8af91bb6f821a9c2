"""Serves the console's style sheet and scripts. Each URL contains a digest of all these files."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

_MEDIA: Final[Mapping[str, str]] = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_DIGEST_LENGTH: Final = 16
# Browsers may keep a file forever. The file at a URL never changes, because another release has
# another digest in its URLs.
_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
    # An SVG file may be opened as a page. This header forbids scripts in it.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
}


class _File(NamedTuple):
    content: bytes
    media: str


@cache
def _files() -> Mapping[str, _File]:
    found = {}
    for each in files("app.console").joinpath("static").iterdir():
        media = _MEDIA.get(each.name.rpartition(".")[2])
        if media is not None:
            found[each.name] = _File(each.read_bytes(), media)
    return found


@cache
def digest() -> str:
    """Return one digest of all static files together.

    Scripts import each other by relative URLs, so all files need the same digest in their URLs.
    """
    whole = sha256()
    for name, file in sorted(_files().items()):
        whole.update(b"%s %d " % (name.encode(), len(file.content)) + file.content)
    return whole.hexdigest()[:_DIGEST_LENGTH]


async def static_file(request: Request) -> Response:
    """Return a static file.

    The status is 404 if there is no such file, or if the URL has the digest of another release.
    """
    file = _files().get(request.path_params["name"])
    if file is None or request.path_params["digest"] != digest():
        return Response(status_code=404, headers={"Cache-Control": "no-store"})
    return Response(file.content, headers=_HEADERS, media_type=file.media)

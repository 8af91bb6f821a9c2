"""Who is signed in, and which forms are ours: cookies without anything stored in the service.

The session's cookie has the reader's API key, encrypted by the installation's secret key, with the
time when it ends. So each API process accepts it, and it ends with the key: every request checks
the key as the REST API does.

Neither cookie names a path: a browser then sends it to the pages beside and below the one that set
it, also behind a proxy that adds a prefix, which nobody tells this process.
"""

import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import SecretUnreadableError
from app.vault import Vault

SESSION_COOKIE: Final = "angelia_session"
# The cookie of readers without a session. Forms are bound to it, also the one that signs in.
FORM_COOKIE: Final = "angelia_form"
# How long a reader stays signed in: a day at work.
SESSION_S: Final = 12 * 3600
# The field that proves that a form came from one of our pages.
TOKEN_FIELD: Final = "form_token"  # noqa: S105 - the name of a field, no secret

_PLACE: Final = ("console", "sessions", "cookie")
_FORM: Final = b"angelia console form"
_FORM_BYTES: Final = 24


class Sessions:
    """Makes and reads sessions with the keys of `vault`; `clock` has seconds since the epoch."""

    def __init__(self, vault: Vault, *, clock: Callable[[], float] = time.time) -> None:
        self._vault = vault
        self._clock = clock

    def sealed(self, token: str) -> str:
        """Return the cookie of a session with the API key `token`.

        Raises:
            SecretKeyMissingError: The installation has no secret key.
        """
        said = {"key": token, "until": int(self._clock()) + SESSION_S}
        return self._vault.seal(orjson.dumps(said).decode(), _PLACE)

    def key_in(self, cookie: str) -> str | None:
        """Return the API key of a session; None if it has ended, or is none of ours."""
        try:
            said = orjson.loads(self._vault.open(cookie, _PLACE))
        except (SecretUnreadableError, UnicodeEncodeError):
            return None
        key, until = str(said["key"]), float(said["until"])
        return key if self._clock() < until else None


def cookies_of(request: Request, name: str) -> Sequence[str]:
    """Return the values of all cookies of that name: browsers send one for each path."""
    pairs = ";".join(request.headers.getlist("cookie")).split(";")
    split = (pair.strip().partition("=") for pair in pairs)
    return [value for known, _, value in split if known == name and value]


def form_token(cookie: str) -> str:
    """Return the token of forms that are sent with `cookie`.

    The cookie is the key, which only its browser and this process know.
    """
    return hmac.new(cookie.encode(), _FORM, sha256).hexdigest()


def is_form_of(request: Request, token: str) -> bool:
    """Whether a form with that token is of a page that the same browser got."""
    known = (*cookies_of(request, SESSION_COOKIE), *cookies_of(request, FORM_COOKIE))
    # As bytes: texts are compared only if they are ASCII.
    given = token.encode()
    return any(hmac.compare_digest(form_token(each).encode(), given) for each in known)


def is_from_our_page(request: Request) -> bool:
    """Whether the browser says that a page of this origin sent the request, or says nothing.

    Browsers say it by Sec-Fetch-Site where they trust the connection, and else by Origin, which is
    compared with the host that the browser, or the proxy before us, asked for.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site == "same-origin"
    if origin is None:
        return True
    # A page without an origin of its own says `null`.
    asked = origin.lower().partition("://")[2]
    hosts = (request.headers.get("host", ""), request.headers.get("x-forwarded-host", ""))
    return bool(asked) and asked in {each.lower() for each in hosts}


def new_form_cookie() -> str:
    """Return a new cookie for a reader without a session."""
    return secrets.token_urlsafe(_FORM_BYTES)


def set_cookie(request: Request, response: Response, *, name: str, value: str) -> None:
    """Set a cookie that no script reads, and no other site's page makes the browser send."""
    response.headers.append("set-cookie", f"{name}={value}; {_ATTRIBUTES}{_secure(request)}")


def drop_cookie(request: Request, response: Response, name: str) -> None:
    """Take a cookie away, from a page beside the one that set it."""
    response.headers.append("set-cookie", f"{name}=; Max-Age=0; {_ATTRIBUTES}{_secure(request)}")


_ATTRIBUTES: Final = "HttpOnly; SameSite=Strict"


def _secure(request: Request) -> str:
    """Return the attribute for connections by TLS: ours, or the one to the proxy before us.

    A client that forges the proxy's header only gets a cookie that it does not send back.
    """
    outside = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return "; Secure" if "https" in {request.url.scheme, outside} else ""

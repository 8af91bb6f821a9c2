"""The console as an ASGI application. It is imported at the first request for a page."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Final

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from app.api.body import ClientGoneError
from app.api.errors import RequestRefusedError, status_of
from app.console import sessions
from app.console.address import api_root
from app.console.api import Api, ApiRefusedError
from app.console.csv_file import CsvFile
from app.console.flashes import FLASHES
from app.console.forms import SentForm, form_of
from app.console.links import Links
from app.console.live import LiveFeeds
from app.console.live_stream import EVENT_STREAM, LivePage, LiveStream
from app.console.pages import ROUTES, SECTIONS
from app.console.rendering import TOKEN_MARK, render
from app.console.sessions import Sessions
from app.console.static_files import static_file
from app.console.view import PageRoute, PageView, Redirect, Result, ShownPage
from app.domain.access.keys import NOBODY, Caller
from app.domain.errors import AccessError, AngeliaError
from app.services.access.authorization import AccessService

_log = structlog.get_logger(__name__)

PREFIX: Final = "/console"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Accept, Cookie",
}
_SIGN_IN: Final = "sign-in"
_STALE: Final = (
    "This form is not from a page that this browser has open. Go back, load the page again, and"
    " send the form once more."
)
_ELSEWHERE: Final = "Forms are accepted only from the console's own pages."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleParts:
    """What the console needs from this API process."""

    api: ASGIApp
    access: AccessService
    sessions: Sessions
    feeds: LiveFeeds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """The reader of a page: the caller, the API key `token`, and the cookie for form tokens.

    `new_cookie` says whether the cookie is sent with the page, because the browser does not have
    it.
    """

    caller: Caller
    token: str | None
    cookie: str
    new_cookie: bool


def console_app(parts: ConsoleParts) -> Starlette:
    """Return the console as an application. All its paths begin with `PREFIX`."""
    pages = _Pages(parts)
    routes = [
        Route(f"{PREFIX}/static/{{digest}}/{{name}}", static_file),
        Route(f"{PREFIX}/{_SIGN_IN}", pages.sign_in, methods=["GET", "POST"]),
        Route(f"{PREFIX}/sign-out", pages.sign_out, methods=["POST"]),
        *(
            Route(
                f"{PREFIX}{each.path}",
                partial(pages.answer, route=each),
                methods=["GET", *(["POST"] if each.submit else [])],
            )
            for each in ROUTES
        ),
        Route(f"{PREFIX}/{{other:path}}", pages.missing),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={Exception: pages.broken, ClientGoneError: _gone},
    )


class _Pages:
    """Answers requests for pages."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    async def answer(self, request: Request, *, route: PageRoute) -> Response:
        """Answer a request for the page of `route`.

        The answer is the page, the result of a sent form, or a stream of events with the parts of
        the page that change.
        """
        reader = None
        try:
            reader = await self._reader(request)
            if reader is None:
                return self._to_sign_in(request)
            view = self._view(request, reader)
            if request.method == "POST":
                return await self._submitted(request, route, reader=reader, view=view)
            if route.show is None:
                return RedirectResponse(view.link(), HTTPStatus.SEE_OTHER)
            if EVENT_STREAM in request.headers.get("accept", ""):
                return self._streamed(request, route, reader=reader, view=view)
            return self._shown(request, await route.show(view), reader=reader, view=view)
        except (ApiRefusedError, AngeliaError, RequestRefusedError) as error:
            return self._refused(request, error, reader)

    async def sign_in(self, request: Request) -> Response:
        """Show the form for an API key. When the reader sends a key, begin a session."""
        problem = ""
        status = 200
        if request.method == "POST":
            try:
                return await self._signed_in(request, await form_of(request))
            except (ApiRefusedError, AngeliaError, RequestRefusedError) as error:
                problem, status = error.message, _status(error)
        page = ShownPage(
            template="sign_in.html",
            title="Sign in",
            section="",
            status=status,
            context={"problem": problem, "back": _back(request)},
        )
        return self._bare(request, page)

    async def sign_out(self, request: Request) -> Response:
        """End the reader's session."""
        form = await form_of(request)
        if problem := _form_problem(request, form):
            return self._refused(request, ApiRefusedError(403, problem))
        response = RedirectResponse(f"./{_SIGN_IN}", HTTPStatus.SEE_OTHER, HEADERS)
        sessions.drop_cookie(request, response, sessions.SESSION_COOKIE)
        return response

    async def missing(self, request: Request) -> Response:
        """Answer that the page does not exist."""
        return self._refused(request, ApiRefusedError(404, "There is no such page."))

    async def broken(self, request: Request, error: Exception) -> Response:
        """Answer that an unexpected error happened, and log the error."""
        _log.error("console_page_broke", path=request.url.path, kind=type(error).__name__)
        hidden = ApiRefusedError(500, "Something broke. The service's log says what.")
        return self._refused(request, hidden)

    async def _reader(self, request: Request) -> _Reader | None:
        """Return the reader of the page; None if the reader must sign in first."""
        if not self._parts.access.controlled:
            return _with_form_cookie(request, await self._parts.access.caller(None))
        for cookie in sessions.cookies_of(request, sessions.SESSION_COOKIE):
            if (token := self._parts.sessions.key_in(cookie)) is None:
                continue
            try:
                caller = await self._parts.access.caller(token.encode())
            except AccessError:
                continue
            return _Reader(caller=caller, token=token, cookie=cookie, new_cookie=False)
        return None

    def _view(self, request: Request, reader: _Reader) -> PageView:
        return PageView(
            caller=reader.caller,
            api=Api(app=self._parts.api, token=reader.token),
            access=self._parts.access,
            link=_links(request),
            params=request.path_params,
            query=request.query_params,
        )

    async def _submitted(
        self, request: Request, route: PageRoute, *, reader: _Reader, view: PageView
    ) -> Response:
        form = await form_of(request)
        if problem := _form_problem(request, form):
            raise ApiRefusedError(HTTPStatus.FORBIDDEN, problem)
        if route.submit is None:
            raise ApiRefusedError(405, "Nothing can be sent to this page.")
        result = await route.submit(replace(view, form=form))
        return self._shown(request, result, reader=reader, view=view)

    def _shown(
        self, request: Request, result: Result, *, reader: _Reader, view: PageView
    ) -> Response:
        if isinstance(result, Redirect):
            return RedirectResponse(result.to, HTTPStatus.SEE_OTHER, HEADERS)
        if isinstance(result, CsvFile):
            saved = {"Content-Disposition": f'attachment; filename="{result.name}"'}
            return Response(result.text, headers={**HEADERS, **saved}, media_type="text/csv")
        context = {
            **_page_context(request, result, view=view),
            **_parts_of(result, view),
        }
        text = render(result.template, context)
        text = text.replace(TOKEN_MARK, sessions.form_token(reader.cookie))
        response = HTMLResponse(text, result.status, HEADERS)
        if reader.new_cookie:
            sessions.set_cookie(request, response, name=sessions.FORM_COOKIE, value=reader.cookie)
        return response

    def _streamed(
        self, request: Request, route: PageRoute, *, reader: _Reader, view: PageView
    ) -> Response:
        grants = reader.caller.grants

        async def parts() -> Mapping[str, str]:
            assert route.show is not None  # noqa: S101 - pages with changing parts have `show`
            api = Api(app=self._parts.api, token=reader.token)
            fresh = replace(view, api=api, only_live=True)
            page = await route.show(fresh)
            return _rendered(page, fresh) if isinstance(page, ShownPage) else {}

        async def may_look() -> bool:
            try:
                token = None if reader.token is None else reader.token.encode()
                return (await self._parts.access.caller(token)).grants == grants
            except AccessError:
                return False

        key = (request.url.path, request.url.query, grants, view.writable)
        page = LivePage(
            feeds=self._parts.feeds,
            key=key,
            render=parts,
            may_look=may_look,
            token=sessions.form_token(reader.cookie),
        )
        return LiveStream(page, headers=HEADERS)

    async def _signed_in(self, request: Request, form: SentForm) -> Response:
        if problem := _form_problem(request, form):
            raise ApiRefusedError(HTTPStatus.FORBIDDEN, problem)
        token = form["key"].strip()
        caller = await self._parts.access.caller(token.encode("utf-8", "replace"))
        if caller is NOBODY:
            raise ApiRefusedError(HTTPStatus.UNAUTHORIZED, "Enter an API key.")
        cookie = self._parts.sessions.sealed(token)
        to = form["back"]
        response = RedirectResponse(to if _is_ours(to) else "./", HTTPStatus.SEE_OTHER, HEADERS)
        sessions.set_cookie(request, response, name=sessions.SESSION_COOKIE, value=cookie)
        return response

    def _to_sign_in(self, request: Request) -> Response:
        if request.method == "POST" or EVENT_STREAM in request.headers.get("accept", ""):
            return Response("Sign in first.", HTTPStatus.UNAUTHORIZED, HEADERS)
        path = request.url.path.removeprefix(f"{PREFIX}/")
        requested = f"{path}?{request.url.query}" if request.url.query else path
        return RedirectResponse(_links(request)(_SIGN_IN, back=requested), 303, HEADERS)

    def _refused(
        self, request: Request, error: Exception, reader: _Reader | None = None
    ) -> Response:
        """Return a page that shows `error`."""
        message = getattr(error, "message", "")
        page = ShownPage(
            template="error.html",
            title=HTTPStatus(_status(error)).phrase,
            section="",
            status=_status(error),
            context={"message": message, "details": getattr(error, "details", ())},
        )
        return self._bare(request, page, reader)

    def _bare(self, request: Request, page: ShownPage, reader: _Reader | None = None) -> Response:
        """Return a page that readers may see without signing in."""
        reader = reader or _with_form_cookie(request, NOBODY)
        return self._shown(request, page, reader=reader, view=self._view(request, reader))


def _with_form_cookie(request: Request, caller: Caller) -> _Reader:
    known = sessions.cookies_of(request, sessions.FORM_COOKIE)
    cookie = known[0] if known else sessions.new_form_cookie()
    return _Reader(caller=caller, token=None, cookie=cookie, new_cookie=not known)


def _links(request: Request) -> Links:
    return Links(request.url.path.removeprefix(PREFIX))


def _page_context(request: Request, page: ShownPage, *, view: PageView) -> Mapping[str, object]:
    return {
        "page": page,
        "title": page.title,
        "section": page.section,
        "link": view.link,
        "caller": view.caller,
        "controlled": view.controlled,
        "signed_in": view.controlled and view.caller is not NOBODY,
        "writable": view.writable,
        "calls": view.api.calls,
        "forms": page.forms,
        "api_root": api_root(request),
        "sections": SECTIONS,
        "done": view.query.get("done", ""),
        "flashes": FLASHES,
        **page.context,
    }


def _parts_of(page: ShownPage, view: PageView) -> Mapping[str, object]:
    return {"parts": _rendered(page, view)}


def _rendered(page: ShownPage, view: PageView) -> Mapping[str, str]:
    """Return the HTML of each part of the page that changes, by the id of its element."""
    context = {"link": view.link, "controlled": view.controlled, **page.context}
    return {part: render(template, context) for part, template in page.live.items()}


def _form_problem(request: Request, form: SentForm) -> str:
    """Return why a form is refused; an empty text if the form is accepted."""
    if not sessions.is_from_our_page(request):
        return _ELSEWHERE
    return "" if sessions.is_form_of(request, form[sessions.TOKEN_FIELD]) else _STALE


def _status(error: Exception) -> int:
    if isinstance(error, ApiRefusedError | RequestRefusedError):
        return error.status
    return status_of(error) if isinstance(error, AngeliaError) else 500


def _back(request: Request) -> str:
    """Return the link to the page that the reader wanted before signing in; empty if unknown."""
    wanted = request.query_params.get("back", "")
    return wanted if _is_ours(wanted) else ""


def _is_ours(link: str) -> bool:
    """Whether a link leads to a page of the console, not to another host."""
    plain = link.isprintable() and "\\" not in link and ":" not in link.partition("?")[0]
    return plain and bool(link) and not link.startswith(("/", "."))


async def _gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)

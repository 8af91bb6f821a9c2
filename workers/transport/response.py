"""httpx's response, for who looks at little of it."""

import httpx

from workers.transport.answer import RawAnswer

_NO_BODY = httpx.ByteStream(b"")
# Shared by all responses; httpx copies extensions, and a ByteStream does not change.
_WHOLE = {"truncated": False}
_TRUNCATED = {"truncated": True}


class LateResponse(httpx.Response):
    """A complete response; its extension `truncated` says whether there was more body.

    Headers are read when they are asked for: it takes longer than all else of it, and few are.
    """

    def __init__(self, answer: RawAnswer, request: httpx.Request) -> None:
        self._late: httpx.Headers | None = None
        self._raw = answer.headers
        super().__init__(
            answer.status,
            stream=httpx.ByteStream(answer.body) if answer.body else _NO_BODY,
            request=request,
            extensions=_TRUNCATED if answer.truncated else _WHOLE,
        )
        self._late = None

    @property
    def headers(self) -> httpx.Headers:
        """As they came."""
        if self._late is None:
            self._late = httpx.Headers(self._raw)
        return self._late

    @headers.setter
    def headers(self, headers: httpx.Headers) -> None:
        """Instead of those that came."""
        self._late = headers

"""A lazily parsed `httpx.Response`."""

from typing import Final, Self

import httpx

from workers.transport.answer import RawAnswer, RawHeaders

_NO_BODY: Final = httpx.ByteStream(b"")


class LazyResponse(httpx.Response):
    """A complete response.

    The extension `truncated` of the response is true if only the first part of the body was read.
    Headers are parsed only when they are used, because parsing takes longer than all other steps,
    and most headers are not used.
    """

    raw_headers: RawHeaders = ()
    _late: httpx.Headers | None = None

    @classmethod
    def of(cls, answer: RawAnswer, request: httpx.Request) -> Self:
        """Return the response to `request`."""
        response = cls.__new__(cls)
        # Set the same values as the constructor of httpx: first the values that are equal for all
        # responses, then the values of this response.
        vars(response).update(_ALIKE)
        response.raw_headers = answer.headers
        response.status_code = answer.status
        response.request = request
        response.extensions = {"truncated": answer.truncated}
        response.history = []
        if answer.body:
            response.stream = httpx.ByteStream(answer.body)
        return response

    @property
    def headers(self) -> httpx.Headers:
        """The headers as received."""
        if self._late is None:
            self._late = httpx.Headers(self.raw_headers)
        return self._late

    @headers.setter
    def headers(self, headers: httpx.Headers) -> None:
        """Replace the received headers."""
        self._late = headers


_ALIKE: Final = {
    name: value
    for name, value in vars(LazyResponse(200, stream=_NO_BODY)).items()
    if name not in vars(LazyResponse)
}

"""Request headers in settings: allowed names and values."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from app.domain.errors import ValidationFailedError
from app.domain.secrets import SECRET

HEADERS_MAX: Final = 50
NAME_LENGTH_MAX: Final = 128
VALUE_LENGTH_MAX: Final = 4096
# A header that is never propagated, because it has the publisher's credentials.
AUTHORIZATION: Final = "authorization"

# Headers about a single connection, or about how one message is framed. They are never propagated
# (RFC 9110, section 7.6.1). Accept-Encoding is one of them because responses are not decompressed.
OF_CONNECTION: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A header that is sent unchanged. Its value is often a key, and therefore a secret."""

    name: str
    value: str = field(repr=False, metadata=SECRET)


def require_header_names(names: Sequence[str], *, path: str) -> None:
    """Check that headers with these names can be sent.

    Raises:
        ValidationFailedError: A name is not allowed (field `path.{index}`).
    """
    if len(names) > HEADERS_MAX:
        raise ValidationFailedError.of(path, f"must be at most {HEADERS_MAX}")
    for index, name in enumerate(names):
        if problem := _name_problem(name):
            raise ValidationFailedError.of(f"{path}.{index}", problem)


def require_headers(headers: Sequence[Header], *, path: str) -> None:
    """Check that these headers can be sent.

    Raises:
        ValidationFailedError: A header is not allowed. The field of the error begins with `path`.
    """
    if len(headers) > HEADERS_MAX:
        raise ValidationFailedError.of(path, f"must be at most {HEADERS_MAX}")
    for index, header in enumerate(headers):
        if problem := _name_problem(header.name):
            raise ValidationFailedError.of(f"{path}.{index}.name", problem)
        if len(header.value) > VALUE_LENGTH_MAX or not _VALUE.fullmatch(header.value):
            raise ValidationFailedError.of(
                f"{path}.{index}.value",
                f"must be 0 to {VALUE_LENGTH_MAX} printable ASCII characters, no space around them",
            )


def _name_problem(name: str) -> str | None:
    if len(name) > NAME_LENGTH_MAX or not _TOKEN.fullmatch(name):
        return f"must be a header name of 1 to {NAME_LENGTH_MAX} characters"
    if name.lower() in OF_CONNECTION:
        return "must not be a header about the connection"
    return None

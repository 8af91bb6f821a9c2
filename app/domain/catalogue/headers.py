"""The rules for names and values of request headers in settings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from app.domain.errors import ValidationFailedError
from app.domain.secrets import SECRET

HEADERS_MAX: Final = 50
NAME_LENGTH_MAX: Final = 128
VALUE_LENGTH_MAX: Final = 4096
# This header is never propagated, because it contains the credentials of the publisher.
AUTHORIZATION: Final = "authorization"

# Headers about one connection, or about the form of one HTTP message. They are never propagated
# (RFC 9110, section 7.6.1). Accept-Encoding is in the list because Angelia does not decompress
# responses.
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
    """A header that is sent unchanged. Its value is a secret, because it is often a key."""

    name: str
    value: str = field(repr=False, metadata=SECRET)


def require_header_names(names: Sequence[str], *, path: str) -> None:
    """Check that headers with the names `names` can be sent. `path` is their field.

    Raises:
        ValidationFailedError: A name is not allowed (field `path.{index}`), or there are too many.
    """
    if len(names) > HEADERS_MAX:
        raise ValidationFailedError.of(path, f"must be at most {HEADERS_MAX}")
    for index, name in enumerate(names):
        if problem := _name_problem(name):
            raise ValidationFailedError.of(f"{path}.{index}", problem)


def require_headers(headers: Sequence[Header], *, path: str) -> None:
    """Check that the headers `headers` can be sent. `path` is their field.

    Raises:
        ValidationFailedError: A header is not allowed, or there are too many. The field in the
            error begins with `path`.
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

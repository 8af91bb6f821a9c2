"""All error codes, with their meaning and an example of the error's text.

The meaning is the docstring of the error class (`app.domain.errors`), so that nothing is written
twice.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from app.domain import errors
from app.domain.errors import AngeliaError

TIMEOUT: Final = "TIMEOUT"
OTHER: Final = AngeliaError.code
# Codes without an error class, with their meanings.
_BESIDE: Final[Mapping[str, str]] = {
    OTHER: "Anything else: no such path or method, a read-only mode, a defect of ours.",
    TIMEOUT: "The body of the request did not come in time.",
}
# Examples of the error's text, for codes whose meaning would be a bad example.
_MESSAGES: Final[Mapping[str, str]] = {
    "AUTH_ERROR": "The API key is wrong, has expired, or was revoked",
    "DUPLICATE_MESSAGE": "Topic shop.orders has it already: message order-1",
    "FORMAT_ERROR": "The body must be a JSON object",
    "GROUP_NOT_EMPTY": "Group shop still has topics",
    "GROUP_NOT_EXISTS": "Group shop does not exist",
    "INVALID_QUERY": "name: near is no operator; there are eq, ne, like, in, gt, lt, and, or, not",
    "JOB_QUEUE_FULL": "100 jobs wait already: try again when some ended",
    "OTHER": "Internal error",
    "PERMISSION_DENIED": "billing may not do this: it takes the role topicOwner",
    "PRECONDITION_FAILED": "shop.orders has changed meanwhile: read it again",
    "SENDING_TO_KAFKA_TIMEOUT": "Message not acknowledged in time",
    "SUBSCRIPTION_NOT_EXISTS": "Subscription billing of shop.orders does not exist",
    "THROUGHPUT_QUOTA_VIOLATION": "Topic shop.orders takes at most 1048576 bytes a second",
    "TIMEOUT": "Timeout while reading message",
    "TOKEN_NOT_PROVIDED": "For this an API key is needed",
    "TOPIC_NOT_EMPTY": "Topic shop.orders still has subscriptions",
    "TOPIC_NOT_EXISTS": "Topic shop.orders does not exist",
    "UNROUTABLE": "Topic shop.orders has no active subscription",
    "VALIDATION_ERROR": "endpoint must be an http:// or https:// URI",
}


def kinds(kind: type[AngeliaError] = AngeliaError) -> Iterator[type[AngeliaError]]:
    """Yield every error class of the domain, parents before children."""
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield below
        yield from kinds(below)


@cache
def codes() -> Mapping[str, str]:
    """Return the meaning of each code, ordered by code."""
    found = dict(_BESIDE)
    for kind in kinds():
        if "code" in vars(kind):
            found.setdefault(kind.code, (kind.__doc__ or "").partition("\n")[0])
    return dict(sorted(found.items()))


def example(code: str) -> dict[str, Any]:
    """Return an example error with this code, for OpenAPI.

    Raises:
        KeyError: The code is unknown.
    """
    meaning = codes()[code]
    message = _MESSAGES.get(code, meaning.rstrip("."))
    return {"summary": meaning, "value": {"message": message, "code": code}}

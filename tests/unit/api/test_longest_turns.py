"""The longest turn of the event loop while a message is checked: bounded, whatever the message."""

import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final

import pytest

from app.api.publish.batch_items import Form, items
from app.api.publish.cloudevents import event_of
from app.domain.errors import AngeliaError
from app.schemas.json_bodies import check_json_body
from tests.unit.filtering.test_work import RATIO_MAX, plain_s
from tests.work import SHARE_MAX, least_share

SIZE: Final = 2_000_000
EVENT: Final = b'{"specversion":"1.0","id":"1","source":"s","type":"t","data":%b}'


def listed(item: bytes) -> Callable[[], bytes]:
    count = SIZE // (len(item) + 1)
    return lambda: b"[" + (item + b",") * (count - 1) + item + b"]"


BODIES: Final[Mapping[str, Callable[[], bytes]]] = {
    "usual": listed(b'{"id":"ord-1","customer":{"name":"Jane Doe","vip":true},"tags":["new"]}'),
    "numbers": listed(b"1"),
    "lists": listed(b"[]"),
    "objects": listed(b'{"a":{"b":{}}}'),
    "deep lists": listed(b"[" * 900 + b"]" * 900),
    "texts": listed(b'"a"'),
    "members": lambda: b"{" + b",".join(b'"%d":1' % n for n in range(SIZE // 11)) + b"}",
    "text": lambda: b'"' + b"a" * SIZE + b'"',
    "text of other letters": lambda: '"{}"'.format("é€" * (SIZE // 5)).encode(),
    "text of escapes": lambda: b'["' + b'\\\\\\"' * (SIZE // 4) + b'"]',
    "text of backslashes": lambda: b'["' + b"\\" * SIZE + b'"]',
    "text of numbered letters": lambda: b'["' + b"\\u00e9" * (SIZE // 6) + b'"]',
    "quotation marks": lambda: b"[" + b'"' * SIZE + b"]",
    "open lists": lambda: b"[" * SIZE,
    "closed lists": lambda: b"[1" + b"]" * SIZE,
    "white space": lambda: b"[1" + b" " * SIZE + b"]",
    "commas": lambda: b"[1" + b"," * SIZE + b"]",
    "colons": lambda: b'{"a"' + b":" * SIZE + b"}",
    "digits": lambda: b"9" * SIZE,
    "no UTF-8": lambda: b"[" + b"1," * (SIZE // 2) + b'"\xff"]',
}


@cache
def body_named(name: str) -> bytes:
    return BODIES[name]()


async def all_items(body: bytes, form: Form, *, envelope: bool = False) -> None:
    async for _ in items(body, form, envelope=envelope):
        pass


WAYS: Final[dict[str, Callable[[bytes], Coroutine[Any, Any, object]]]] = {
    "message": check_json_body,
    "event": lambda body: event_of(EVENT % body),
    "element of a batch": lambda body: all_items(b"[%b,1]" % body, Form.ARRAY),
    "event of a batch": lambda body: all_items(b"[%b]" % (EVENT % body), Form.EVENTS),
    "envelope": lambda body: all_items(
        b'{"message":%b,"id":"m"}' % body, Form.LINES, envelope=True
    ),
}


def longest_turn_s(act: Coroutine[Any, Any, object]) -> float:
    """The CPU time of the longest turn of what waits for nothing but its next turn."""
    longest = 0.0
    with suppress(StopIteration, AngeliaError):
        while True:
            began = time.thread_time()
            try:
                act.send(None)
            finally:
                longest = max(longest, time.thread_time() - began)
    return longest


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", BODIES)
def test_no_turn_takes_long(body: str, way: str) -> None:
    share = least_share(lambda: longest_turn_s(WAYS[way](body_named(body))), plain_s, RATIO_MAX)
    assert share <= SHARE_MAX

"""Large messages are read without the collector, which is as it was afterwards."""

import gc
from collections.abc import Callable

import pytest

from app.domain.errors import MessageInvalidError
from app.domain.json_text import value_end
from app.domain.message import HEADER_CONTENT_TYPE, Message, Partition, Record
from app.filtering.bodies import parsed
from app.filtering.budget import WORK_MAX, Budget
from app.json_reading import is_json
from app.schemas.json_bodies import json_body
from workers.delivery.events import binary

LISTS = b"[" + b"[]," * 100_000 + b"1]"


def collections(act: Callable[[], object]) -> int:
    """How many begin meanwhile."""
    begun: list[str] = []

    def count(phase: str, _info: dict[str, int]) -> None:
        begun.append(phase)

    gc.callbacks.append(count)
    try:
        act()
    finally:
        gc.callbacks.remove(count)
    return begun.count("start")


def an_event(data: bytes) -> bytes:
    return b'{"specversion":"1.0","id":"1","source":"s","type":"t","data":%b}' % data


def a_message(body: bytes, content_type: str = "application/json") -> Message:
    headers = [(HEADER_CONTENT_TYPE, content_type.encode())]
    return Message(Record(0, 0, None, body, headers), Partition("t", 0))


@pytest.mark.parametrize(
    "read",
    [
        lambda: json_body(LISTS),
        lambda: is_json(LISTS),
        lambda: parsed(LISTS, Budget(WORK_MAX * 100)),
        lambda: binary(a_message(an_event(LISTS), "application/cloudevents+json")),
    ],
    ids=["message", "whether it is JSON", "filter", "event taken apart"],
)
def test_hardly_anything_is_collected_while_a_large_message_is_read(
    read: Callable[[], object],
) -> None:
    read()
    assert collections(read) <= 1


def test_hardly_anything_is_collected_while_the_end_of_one_is_looked_for() -> None:
    text = LISTS.decode()
    assert collections(lambda: value_end(text, 0)) <= 1


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_collector_is_as_it_was_also_after_what_is_no_json(*, was_enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if was_enabled else gc.disable)()
        with pytest.raises(MessageInvalidError):
            json_body(LISTS + b"]")
        assert gc.isenabled() is was_enabled
    finally:
        (gc.enable if before else gc.disable)()

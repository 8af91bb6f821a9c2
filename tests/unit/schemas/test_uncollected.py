"""Large messages are read without the collector, which is as it was afterwards."""

import gc
from collections.abc import Callable

import pytest

from app.domain.errors import MessageInvalidError
from app.domain.json_text import value_end
from app.schemas.json_bodies import json_body

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


def test_hardly_anything_is_collected_while_a_large_message_is_read() -> None:
    assert collections(lambda: json_body(LISTS)) <= 1


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

"""Schemas are made ready beside the event loop, each once."""

import asyncio
import json
import threading

import pytest

from app.domain.catalogue.schema import ContentType
from app.domain.errors import ValidationFailedError
from app.schemas.compiled import COMPILED_MAX, MadeOnce, is_made, require_schema
from app.services.catalogue.schema_preparation import SchemaMaking


async def test_a_schema_is_made_in_another_thread_and_used_in_this_one() -> None:
    text = json.dumps({"title": "made in another thread"})
    await SchemaMaking().ready(ContentType.JSON, text)
    assert is_made(ContentType.JSON, text)
    require_schema(ContentType.JSON, text)


async def test_what_is_no_schema_is_found_out_once_and_refused_each_time() -> None:
    await SchemaMaking().ready(ContentType.AVRO, '{"type": "nothing"}')
    assert is_made(ContentType.AVRO, '{"type": "nothing"}')
    for _ in range(2):
        with pytest.raises(ValidationFailedError, match="schema"):
            require_schema(ContentType.AVRO, '{"type": "nothing"}')


async def test_the_loop_goes_on_while_a_schema_is_made() -> None:
    gone_on = threading.Event()
    seen: list[bool] = []

    def make(_kind: ContentType, _text: str) -> None:
        seen.append(gone_on.wait(timeout=30))

    ready = SchemaMaking(make).ready(ContentType.JSON, "made by nobody")
    making = asyncio.create_task(ready)
    await asyncio.sleep(0)
    gone_on.set()
    await making
    assert seen == [True]


def test_the_newest_are_kept() -> None:
    calls: list[str] = []

    def make(text: str) -> str:
        calls.append(text)
        return text

    made = MadeOnce(make)
    texts = [str(n) for n in range(COMPILED_MAX + 1)]
    for text in [*texts, texts[-1]]:
        assert made(text) == text
    assert calls == texts
    assert ("0" in made, "1" in made) == (False, True)

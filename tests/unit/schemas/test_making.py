"""Schemas are made ready beside the event loop, each once."""

import asyncio
import json
import threading
from contextlib import suppress

import pytest

from app.domain.catalogue.schema import SCHEMA_LENGTH_MAX, ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.schemas.compatibility import backward_problem
from app.schemas.compiled import COMPILED_MAX, REFUSED_MAX, MadeOnce, is_made, require_schema
from app.schemas.making import SchemaMaking
from app.schemas.versions import require_backward


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


async def test_of_requests_that_are_cancelled_no_two_schemas_are_made_at_once() -> None:
    began, go_on = threading.Event(), threading.Event()
    texts: list[str] = []

    def make(_kind: ContentType, text: str) -> None:
        texts.append(text)
        began.set()
        go_on.wait(timeout=30)

    making = SchemaMaking(make)
    first = asyncio.create_task(making.ready(ContentType.JSON, "one of nobody"))
    await asyncio.to_thread(began.wait, 30)
    first.cancel()
    await asyncio.wait([first])
    other = asyncio.create_task(making.ready(ContentType.JSON, "another of nobody"))
    # A thread that was free would have begun by then.
    await asyncio.to_thread(lambda: None)
    assert texts == ["one of nobody"]
    go_on.set()
    await other
    assert texts == ["one of nobody", "another of nobody"]


async def test_the_loop_goes_on_while_schemas_are_compared() -> None:
    gone_on = threading.Event()
    seen: list[bool] = []

    def compare(_topic: Topic, _text: str) -> None:
        seen.append(gone_on.wait(timeout=30))

    comparing = asyncio.create_task(SchemaMaking(compare=compare).compared(an_avro_topic(), "{}"))
    await asyncio.sleep(0)
    gone_on.set()
    await comparing
    assert seen == [True]


@pytest.mark.parametrize("text", ['"long"', '"string"'])
async def test_what_was_compared_in_another_thread_is_not_compared_again(text: str) -> None:
    topic = an_avro_topic()
    await SchemaMaking().compared(topic, text)
    before = backward_problem.cache_info().misses
    with suppress(ValidationFailedError):
        require_backward(topic, text)
    assert backward_problem.cache_info().misses == before


def an_avro_topic() -> Topic:
    schemas = (TopicSchema(version=1, id=1, text='"int"'),)
    return Topic(name="shop.orders", content_type=ContentType.AVRO, schemas=schemas)


@pytest.mark.parametrize("kind", ContentType)
def test_a_text_that_is_too_long_is_refused_before_it_is_read(kind: ContentType) -> None:
    text = "[" * (SCHEMA_LENGTH_MAX + 1)
    with pytest.raises(ValidationFailedError, match="schema") as refused:
        require_schema(kind, text)
    assert refused.value.details[0].message == f"must be 1 to {SCHEMA_LENGTH_MAX} characters"
    assert not is_made(kind, text)


def test_those_are_kept_that_were_used_last() -> None:
    calls: list[str] = []

    def make(text: str) -> str:
        calls.append(text)
        return text

    made = MadeOnce(make)
    texts = [str(n) for n in range(COMPILED_MAX)]
    for text in [*texts, "0", "new", "0"]:
        assert made(text) == text
    assert calls == [*texts, "new"]
    assert ("0" in made, "1" in made, "2" in made) == (True, False, True)


def test_texts_that_are_none_take_no_place_of_those_that_are_in_use() -> None:
    def make(text: str) -> str:
        if text.startswith("none"):
            raise ValidationFailedError.of("schema", "is none")
        return text

    made = MadeOnce(make)
    made("one")
    refused = [f"none {n}" for n in range(max(COMPILED_MAX, REFUSED_MAX) + 1)]
    for text in refused:
        with pytest.raises(ValidationFailedError, match="schema"):
            made(text)
    assert ("one" in made, refused[0] in made, refused[-1] in made) == (True, False, True)


@pytest.mark.parametrize("kind", [RecursionError, MemoryError])
def test_a_schema_that_is_too_deep_or_too_large_to_be_made_is_none(kind: type[Exception]) -> None:
    def make(_: str) -> str:
        raise kind

    made = MadeOnce(make)
    for _ in range(2):
        with pytest.raises(ValidationFailedError) as refused:
            made("deep")
        assert "nested too deep" in refused.value.details[0].message

import asyncio

import orjson

from app.api.media import json_array


async def test_an_array_of_large_items_leaves_turns_to_others() -> None:
    items = [{"message": "x" * 2**20}, {"message": '"'}] * 6
    encoding = asyncio.ensure_future(json_array(iter(items)))
    turns = 0
    while not encoding.done():
        turns += 1
        await asyncio.sleep(0)
    assert orjson.loads(encoding.result()) == items
    assert turns > 6


async def test_an_array_may_be_empty() -> None:
    assert await json_array(()) == b"[]"

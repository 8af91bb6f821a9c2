"""The Python client: one source for both forms, and answers as the API's document has them."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml

from angelia_client import histories, ledgers, messages, models, replays
from angelia_client.reading import Answered, fields_of
from tests.architecture.sync_client import TARGET, made
from tests.architecture.tree import ROOT

# The publish endpoint's answers are documented in their examples alone.
UNDOCUMENTED = frozenset({"Outcome", "BatchResult"})


@cache
def schemas() -> dict[str, Any]:
    document = yaml.safe_load((ROOT / "openapi.yaml").read_text())
    found: dict[str, Any] = document["components"]["schemas"]
    return found


def answers() -> Iterator[type[Answered]]:
    for module in (messages, models, replays, ledgers, histories):
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, Answered)
                and value is not Answered
                and value.__name__ not in UNDOCUMENTED
            ):
                yield value


def test_the_client_for_threads_is_made_from_that_for_asyncio() -> None:
    written = {path.name: path.read_text() for path in TARGET.glob("*.py")}
    assert written == made(), "angelia_client/sync is stale: run `make client`"


@pytest.mark.parametrize("kind", list(answers()), ids=lambda kind: kind.__name__)
def test_what_the_client_reads_is_what_the_api_says(kind: type[Answered]) -> None:
    assert kind.SCHEMA in schemas(), "openapi.yaml lacks this schema: run `make openapi`"
    schema = schemas()[kind.SCHEMA]
    read = fields_of(kind)
    unknown = {field.name for field in read.values()} - set(schema["properties"])
    assert not unknown, "openapi.yaml lacks these fields: run `make openapi`"
    needed = {field.name for field in read.values() if not field.optional}
    assert needed <= set(schema.get("required", ())), "the service may leave these out"

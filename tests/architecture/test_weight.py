"""What a process does not import before it needs it: each start pays for what is loaded."""

import json
import subprocess
import sys
from typing import Final

import pytest

# Loaded with the first setting, topic or subscription that needs it.
_OPTIONAL: Final = frozenset(
    {
        "alembic",  # a database that is to be migrated
        "google.protobuf",  # an OTLP endpoint
        "jsonpath",  # a filter by a path
        "kafka",  # a log in Kafka
        "opentelemetry.proto",
        "prompt_toolkit",  # the terminal of CEL's library
    }
)


@pytest.mark.parametrize(
    ("module", "needless"),
    [
        ("app.main", _OPTIONAL | {"httpx"}),
        ("workers.process", _OPTIONAL | {"fastapi", "starlette"}),
        ("app.cli.main", _OPTIONAL | {"fastapi", "httpx", "pydantic", "sqlalchemy", "structlog"}),
    ],
)
def test_a_process_imports_nothing_that_it_may_never_need(
    module: str, needless: frozenset[str]
) -> None:
    listed = f"import {module}, json, sys; print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", listed], capture_output=True, text=True, check=True
    )
    assert sorted(needless.intersection(json.loads(done.stdout))) == []

"""What a process does not import before it needs it: each start pays for what is loaded."""

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from app.api.management.application import ROUTERS

# Loaded with the first setting, topic, subscription or request that needs it.
_OPTIONAL: Final = frozenset(
    {
        "alembic",  # a database that is to be migrated
        "cel.cel",  # an expression
        "cryptography",  # a stored secret, a certificate, an Ed25519 key
        "fastavro",  # an Avro schema
        "google.protobuf",  # an OTLP endpoint
        "jsonpath",  # a filter by a path
        "jsonschema_rs",  # a JSON Schema
        "kafka",  # a log in Kafka
        "opentelemetry.proto",
        "prometheus_client",  # a look at the metrics of a process
        "prompt_toolkit",  # the terminal of CEL's library
        "re2",  # a filter by a regex
    }
)
# Parts of libraries for terminals, and for an old pydantic.
_NEVER_IN_PROCESSES: Final = frozenset({"pydantic.v1", "pygments", "rich"})
_WEB: Final = frozenset({"fastapi", "starlette", "uvicorn"})


@pytest.mark.parametrize(
    ("module", "needless"),
    [
        ("app.__main__", _OPTIONAL | _NEVER_IN_PROCESSES | {"h2", "httpx"}),
        # A worker has a server only if its status page has an address.
        ("workers.__main__", _OPTIONAL | _NEVER_IN_PROCESSES | _WEB | {"click", "h2"}),
        # What asks whether the service is ready is loaded while the service starts.
        ("app.cli.commands.up.command", _OPTIONAL | {"angelia_client", "httpx", "sqlalchemy"}),
        ("app.cli.main", _OPTIONAL | {"fastapi", "httpx", "pydantic", "sqlalchemy", "structlog"}),
    ],
)
def test_a_process_imports_nothing_that_it_may_never_need(
    module: str, needless: frozenset[str]
) -> None:
    loaded = "[name for name, module in sys.modules.items() if module is not None]"
    assert sorted(needless.intersection(printed_after(f"import {module}", loaded))) == []


def test_no_route_is_analysed_before_it_is_used() -> None:
    imports = "import app.__main__; from app.api.management import application"
    routes = "[route for router in application.ROUTERS for route in router.routes]"
    analysed = f"[route.path for route in {routes} if getattr(route, 'is_analysed', True)]"
    assert printed_after(imports, f"[len({routes}), *{analysed}]") == [
        sum(len(router.routes) for router in ROUTERS)
    ]


def printed_after(imports: str, expression: str) -> list[Any]:
    """The list that an expression has in a new process, after these imports."""
    program = f"{imports}; import json, sys; print(json.dumps({expression}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    found: list[Any] = json.loads(done.stdout)
    return found

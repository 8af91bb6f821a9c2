"""Commands cost what they need: nothing else is imported for them."""

import json
import subprocess
import sys

import pytest

from app.cli.lazy_commands import Deferred, Entry
from app.cli.main import COMMANDS

SERVERS = frozenset(
    {
        "fastapi",
        "sqlalchemy",
        "psycopg",
        "kafka",
        "uvicorn",
        "alembic",
        "pydantic_settings",
        "structlog",
        "app.config",
        "app.storage",
        "app.services",
    }
)


def imported_by(*arguments: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    told = (
        "import json, sys\n"
        "from app.cli.main import run\n"
        f"sys.argv = ['angelia', *{arguments!r}]\n"
        "try:\n    run()\nexcept SystemExit:\n    pass\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_to_list_commands_none_is_imported() -> None:
    assert not imported_by("--help") & {
        *SERVERS,
        "httpx",
        "angelia_client",
        "app.cli.commands.topics",
    }


def test_a_command_that_calls_the_api_imports_no_server() -> None:
    imported = imported_by("topic", "list", "--api", "http://127.0.0.1:1")
    assert "app.cli.commands.topics" in imported
    assert not imported & {*SERVERS, "asyncio", "app.cli.commands.jobs"}


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_a_command_says_in_lists_what_its_own_help_says(entry: Entry) -> None:
    command = Deferred(entry)
    itself = command.loaded()
    assert itself.name == command.name
    assert (itself.help or "").split("\n\n")[0].replace("\n", " ") == command.help

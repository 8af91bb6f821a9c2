"""A service whose secrets are in files, on a pgbouncer and a PostgreSQL with TLS: none leaks."""

import asyncio
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psutil
import pytest

from tests.e2e.cli import Place
from tests.e2e.service import Service, has_all, running
from tests.e2e.test_crashes import numbered
from tests.fakes.subscriber import Subscriber
from tests.servers.debian_postgres import PASSWORD, USER, DebianPostgres

TOPIC: Final = "files.orders"
MARKER: Final = "hu5h"
SECRET_KEY: Final = "aHU1aGh1NWhodTVoaHU1aGh1NWhodTVoaHU1aGh1NWg="
# In none of what a process shows: itself, or as a URL has it.
SECRETS: Final = (MARKER, SECRET_KEY, PASSWORD, quote(PASSWORD, safe=""))


@pytest.fixture
def in_files(
    debian_postgres: DebianPostgres, debian_database: str, tmp_path: Path
) -> Iterator[Mapping[str, str]]:
    """A configuration all of whose secrets are in files."""
    with debian_postgres.pgbouncer() as port:
        secrets = {
            "DATABASE_URL": f"postgresql://{USER}@127.0.0.1:{port}/{debian_database}",
            "DATABASE_DIRECT_URL": debian_postgres.verified(debian_database, credentials=USER),
            "DATABASE_PASSWORD": PASSWORD,
            "SECRET_KEY": SECRET_KEY,
            "API_KEY": f"ang_{MARKER}",
            "OTLP_ENDPOINT": f"http://127.0.0.1:1/{MARKER}",
            "OTLP_HEADERS": f"authorization={MARKER}",
            "SCHEMA_REGISTRY_URL": f"http://joe:{MARKER}@127.0.0.1:1",
            "EGRESS_PROXY": f"http://joe:{MARKER}@127.0.0.1:1",
        }
        for name, text in secrets.items():
            (tmp_path / name).write_text(f"{text}\n")
        yield {
            "ANGELIA_AUTH": "off",
            "ANGELIA_LOG_LEVEL": "debug",
            **{f"ANGELIA_{name}_FILE": str(tmp_path / name) for name in secrets},
        }


def command_lines(service: Service) -> str:
    """Of its processes and theirs, as everybody on the machine sees them."""
    mine = [psutil.Process(each.pid) for each in service.processes]
    family = [*mine, *(child for each in mine for child in each.children(recursive=True))]
    return "\n".join(" ".join(each.cmdline()) for each in family)


def leaked(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


async def test_no_secret_is_in_what_processes_show(
    in_files: Mapping[str, str], logs: Path, tmp_path: Path
) -> None:
    place = Place(home=tmp_path, settings=in_files)
    async with running(in_files, logs, workers=2) as service, Subscriber() as receiver:
        await service.topic(TOPIC)
        path = await service.subscribe(TOPIC, "billing", receiver.url)
        published = await service.publish_all(TOPIC, numbered(200))
        await has_all(receiver, published)
        await service.accounted(path, len(published))
        assert not leaked(command_lines(service))
        said = await asyncio.to_thread(place.run, "check")
        listed = await asyncio.to_thread(place.run, "check", "--json")
        assert said.returncode == 0, said.stdout + said.stderr
        assert "database itself" in said.stdout
        (tmp_path / "DATABASE_PASSWORD").write_text(f"wrong-{MARKER}")
        refused = await asyncio.to_thread(place.run, "check", "--json")
        assert "does not take the password of the user angelia" in refused.stdout
        spoilt = await asyncio.to_thread(_check_with_spoilt_files, place)
        service.assert_once(receiver.message_ids, published)
    written = "".join(each.log.read_text(errors="replace") for each in service.processes)
    shown = [each.stdout + each.stderr for each in (said, listed, refused, spoilt)]
    assert not leaked("".join((written, *shown)))


def _check_with_spoilt_files(place: Place) -> subprocess.CompletedProcess[str]:
    for name in ("SECRET_KEY", "OTLP_HEADERS", "EGRESS_PROXY", "SCHEMA_REGISTRY_URL"):
        (place.home / name).write_text(f"!{MARKER}!")
    done = place.run("check")
    assert done.returncode == 1
    assert "ANGELIA_SECRET_KEY_FILE" in done.stderr
    return done

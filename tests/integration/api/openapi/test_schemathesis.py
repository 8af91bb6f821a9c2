"""What `openapi.yaml` promises, held against a service by schemathesis, with keys asked for."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.integration.api.guarded import Guarded, guarded

PATIENCE_S = 600
# The number of random requests for each operation.
EXAMPLES = 3
CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
HOOKS = Path(__file__).with_name("schemathesis_hooks.py")
# By what their paths begin with: each part has a service of its own.
PARTS = {
    "topics": "^/topics$|^/topics/[^{]|^/topics/{topic}(?!/subscriptions)",
    "subscriptions": "^/topics/{topic}/subscriptions",
    "the rest": "^/(?!topics)",
}
# What the document shows.
SHOWN = pytest.param("^/", "examples", "positive", id="all-examples")
# The limits of each field; values that are wrong in each way; any values.
MORE = [
    pytest.param(paths, phase, mode, id=f"{part}-{phase}-{mode}", marks=pytest.mark.long)
    for part, paths in PARTS.items()
    for phase, mode in (("coverage", "positive"), ("coverage", "negative"), ("fuzzing", "all"))
]


async def with_shop(api: Guarded) -> None:
    """What the examples and the configuration name."""
    for topic, name in (("shop.orders", "billing"), ("shop.spare", "spare")):
        await api.make("/topics", {"name": topic, "owner": {"id": "Shop"}})
        subscription = {"name": name, "endpoint": "http://h.test/", "owner": {"id": "Billing"}}
        await api.make(f"/topics/{topic}/subscriptions", subscription)


@pytest.mark.timeout(PATIENCE_S + 60)
@pytest.mark.parametrize(("paths", "phase", "mode"), [SHOWN, *MORE])
async def test_no_request_breaks_what_the_document_promises(
    postgres_url: str, tmp_path: Path, paths: str, phase: str, mode: str
) -> None:
    async with guarded(postgres_url) as api:
        await with_shop(api)
        command = [
            *(sys.executable, "-W", "ignore", "-m", "schemathesis.cli"),
            *("--config-file", str(CONFIGURATION)),
            *("run", f"{str(api.http.base_url).rstrip('/')}/openapi.json"),
            *("--header", f"Authorization: {api.admin['Authorization']}"),
            *("--include-path-regex", paths),
            # The same requests each time: made from what the document says, and not by chance.
            *("--phases", phase, "--mode", mode, "--max-examples", str(EXAMPLES)),
            "--generation-deterministic",
            *("--request-timeout", "30", "--suppress-health-check", "all"),
            *("--continue-on-failure", "--no-color"),
        ]
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=tmp_path,
            env={**os.environ, "SCHEMATHESIS_HOOKS": str(HOOKS)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(PATIENCE_S):
            said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()

"""What `openapi.yaml` promises, held against a service by schemathesis, with keys asked for."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.integration.api.guarded import Guarded, guarded

PATIENCE_S = 300
EXAMPLES = 3

# What a name is, an expression or a path, no schema says whole: a request that fits one may be
# refused with 400, which Hermes also answers for a subscription that does not exist. And what is
# not known is ignored, not refused.
CONFIGURATION = """
[checks]
positive_data_acceptance.expected-statuses = ["2xx", "4xx", 503]
negative_data_rejection.enabled = false
"""
# One would take the service out of service; of the other, it cannot make all kinds of bodies.
EXCLUDED = ("/readiness/datacenters/{datacenter}", "/topics/{topic}/batch")


async def with_shop(api: Guarded) -> None:
    """What the examples name."""
    await api.make("/topics", {"name": "shop.orders", "owner": {"id": "Shop"}})
    subscription = {"name": "billing", "endpoint": "http://h.test/", "owner": {"id": "Billing"}}
    await api.make("/topics/shop.orders/subscriptions", subscription)


@pytest.mark.timeout(PATIENCE_S + 60)
async def test_no_request_breaks_what_the_document_promises(
    postgres_url: str, tmp_path: Path
) -> None:
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(CONFIGURATION)
    async with guarded(postgres_url) as api:
        await with_shop(api)
        command = [
            *(sys.executable, "-W", "ignore", "-m", "schemathesis.cli"),
            *("--config-file", str(configuration)),
            *("run", f"{str(api.http.base_url).rstrip('/')}/openapi.json"),
            *("--header", f"Authorization: {api.admin['Authorization']}"),
            *(word for path in EXCLUDED for word in ("--exclude-path", path)),
            *("--phases", "examples,fuzzing", "--max-examples", str(EXAMPLES)),
            *("--seed", "8", "--request-timeout", "30", "--suppress-health-check", "all"),
            *("--continue-on-failure", "--no-color"),
        ]
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(PATIENCE_S):
            said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()

"""The examples of docs/client.md, as a reader runs them."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from angelia_client import AsyncAngelia

PAGE = Path(__file__).parents[3] / "docs" / "client.md"


async def test_the_examples_run(url: str, angelia: AsyncAngelia) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        await _run(example.replace("http://127.0.0.1:8090", url))
    found = [each async for each in angelia.messages.find("shop.payments", key="customer-8")]
    assert [each.message_id for each in found] == ["order-4"]


async def _run(example: str) -> None:
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        example,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await running.communicate()
    assert running.returncode == 0, output.decode()

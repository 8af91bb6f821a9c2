"""Runs real workers in a simulated world, once for each seed. A checker finds broken promises."""

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from typing import Final

import pytest

from tests.simulation.__main__ import ENVIRONMENT, ROOT
from tests.simulation.planted_bugs import PLANTED

# The number of seeds in `make test`. Each takes about 0.17 s of CPU time.
SEEDS: Final = 300
PART: Final = 100
LONG_SEEDS: Final = 20_000
# Seeds whose plain plans failed once (`--plain`). The commits that added them say why.
FAILED_ONCE: Final = (
    *(15_243, 22_015, 40_626, 41_015, 42_856, 130_453),
    *(221_928, 263_110, 314_530, 331_558, 331_582),
    *(410_329, 430_453, 433_615, 441_051, 603_076, 605_340),
    *(613_812, 741_423),
)
# Seeds of today's plans that failed once.
FAILED_LATELY: Final = (4_819, 7_677, 8_519, 9_628, 10_199, 11_910, 13_317, 16_564, 16_815, 18_265)
# The number of seeds within which each planted bug must be found.
PLANTED_SEEDS: Final = 1_000
# The time limit of a test in seconds. It is long, because the machine may be busy.
PATIENCE_S: Final = 3 * 3_600


async def simulation(*arguments: str) -> tuple[int, str]:
    """Run `python -m tests.simulation`. Return its exit code, and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.simulation", *arguments),
        cwd=ROOT,
        env=os.environ | ENVIRONMENT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    return await process.wait(), printed.decode()


async def digests(first: int, last: int) -> Sequence[str]:
    code, printed = await simulation("--seeds", str(first), str(last), "--digests")
    assert code == 0, printed
    return printed.splitlines()


@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
async def test_no_seed_breaks_a_promise(first: int) -> None:
    code, printed = await simulation("--seeds", str(first), str(first + PART))
    assert code == 0, printed
    assert f"{PART} seeds, 0 failed" in printed


@pytest.mark.timeout(PATIENCE_S)
async def test_no_seed_that_failed_once_breaks_a_promise() -> None:
    code, printed = await simulation("--plain", "--each", *map(str, FAILED_ONCE))
    assert code == 0, printed
    assert f"{len(FAILED_ONCE)} seeds, 0 failed" in printed


@pytest.mark.timeout(PATIENCE_S)
async def test_no_seed_that_failed_lately_breaks_a_promise() -> None:
    code, printed = await simulation("--each", *map(str, FAILED_LATELY))
    assert code == 0, printed
    assert f"{len(FAILED_LATELY)} seeds, 0 failed" in printed


@pytest.mark.long
@pytest.mark.timeout(PATIENCE_S)
async def test_none_of_many_seeds_breaks_a_promise() -> None:
    last = SEEDS + LONG_SEEDS
    code, printed = await simulation("--seeds", str(SEEDS), str(last), "--processes", "2")
    # Print the coverage, which `-rP` shows: how often each fault began in each state.
    sys.stdout.write(printed)
    assert code == 0, printed
    assert f"{LONG_SEEDS} seeds, 0 failed" in printed


async def test_a_seed_has_the_same_history_each_time() -> None:
    assert await digests(4, 6) == (await digests(2, 6))[2:]


async def test_a_failing_seed_is_made_smaller_and_printed_with_the_line_that_repeats_it() -> None:
    bug = "forget the order of keys"
    code, printed = await simulation("--seeds", "0", "12", "--planted", bug)
    assert code == 1, printed
    found = re.search(r"repeat: python -m tests\.simulation (--seed \d+) --planted", printed)
    assert found is not None, printed
    before = printed.partition("repeat:")[0]
    # Two messages with the same key are enough to violate the order.
    assert before.count("MessagePlan") == 2
    assert before.count("Act(") == 0
    code, again = await simulation(*found[1].split(), "--planted", bug)
    assert code == 1
    assert "order at" in again


@pytest.mark.long
@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize("bug", PLANTED)
async def test_a_planted_bug_is_found(bug: str) -> None:
    _, printed = await simulation(*("--seeds", "0", str(PLANTED_SEEDS), "--find", "--planted", bug))
    sys.stdout.write(printed)
    assert "found by seed" in printed, printed


async def test_a_bug_that_does_not_fit_the_code_any_more_is_noticed() -> None:
    for name, bug in PLANTED.items():
        for module, text, _ in bug.replaced:
            source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8")
            assert source.count(text) == 1, name

"""Runs many cases in one test. This needs cases that leave nothing behind for the next case."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest

AsyncTest = Callable[..., Awaitable[None]]


def for_each(
    names: Sequence[str], cases: Iterable[Sequence[Any]]
) -> Callable[[AsyncTest], AsyncTest]:
    """Run a test for each case, with the same fixtures, and report each case that fails.

    `pytest.mark.parametrize` would make the fixtures again for each case. For the API and its
    database, that takes 0.17 s of CPU time.
    """

    def decorated(test: AsyncTest) -> AsyncTest:
        @functools.wraps(test)
        async def all_cases(subtests: pytest.Subtests, **fixtures: object) -> None:
            for case in cases:
                with subtests.test(repr(case)):
                    await test(**fixtures, **dict(zip(names, case, strict=True)))

        all_cases.__signature__ = _without(names, test)  # type: ignore[attr-defined] # pytest reads it
        return all_cases

    return decorated


def _without(names: Sequence[str], test: AsyncTest) -> inspect.Signature:
    parameters = inspect.signature(test).parameters.values()
    kept = [each.replace(kind=each.KEYWORD_ONLY) for each in parameters if each.name not in names]
    return inspect.Signature([inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY), *kept])

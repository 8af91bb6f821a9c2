"""Runs many cases in one test. This needs cases that leave nothing behind for the next case."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest

AsyncTest = Callable[..., Awaitable[None]]


def for_each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[AsyncTest], AsyncTest]:
    """Run a test for each case, with the same fixtures, and report each case that fails.

    `pytest.mark.parametrize` would make the fixtures again for each case. For the API and its
    database, that takes 0.17 s of CPU time.

    Args:
        names: The name of a parameter of the test, or the names of several.
        cases: The value of each case, or for several names a sequence of values.
    """
    values = [_by_name(names, case) for case in cases]

    def decorated(test: AsyncTest) -> AsyncTest:
        @functools.wraps(test)
        async def all_cases(subtests: pytest.Subtests, **fixtures: object) -> None:
            for each in values:
                with subtests.test(repr(tuple(each.values()))):
                    await test(**fixtures, **each)

        all_cases.__signature__ = _without(names, test)  # type: ignore[attr-defined] # pytest reads it
        return all_cases

    return decorated


def _by_name(names: str | Sequence[str], case: Any) -> dict[str, Any]:  # noqa: ANN401 - any value
    return {names: case} if isinstance(names, str) else dict(zip(names, case, strict=True))


def _without(names: str | Sequence[str], test: AsyncTest) -> inspect.Signature:
    parameters = inspect.signature(test).parameters.values()
    given = {names} if isinstance(names, str) else set(names)
    kept = [each.replace(kind=each.KEYWORD_ONLY) for each in parameters if each.name not in given]
    return inspect.Signature([inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY), *kept])

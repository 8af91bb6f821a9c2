"""Rules for what mypyc compiles, where it would run other than interpreted."""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import pytest

from tests.architecture.tree import ROOT

MODULES: Final[list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["angelia"][
    "native"
]


def reused_names(code: str) -> Iterator[str]:
    """Names that a coroutine gives to errors of several types: compiled, only the first may be."""
    for coroutine in ast.walk(ast.parse(code)):
        if not isinstance(coroutine, ast.AsyncFunctionDef):
            continue
        types = defaultdict[str, set[str]](set)
        for each in ast.walk(coroutine):
            if isinstance(each, ast.ExceptHandler) and each.name and each.type:
                types[each.name].add(ast.unparse(each.type))
        yield from (f"{coroutine.name}: {name}" for name in types if len(types[name]) > 1)


@pytest.mark.parametrize("module", MODULES)
def test_a_compiled_coroutine_has_a_name_for_each_type_of_error(module: str) -> None:
    code = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text()
    assert not [*reused_names(code)]


def test_the_rule_sees_two_types_under_one_name() -> None:
    handlers = "except {}: pass\n  except {}: pass\n"
    code = "async def f():\n  try: pass\n  " + handlers
    assert [*reused_names(code.format("A as e", "B as e"))] == ["f: e"]
    assert not [*reused_names(code.format("A as e", "B as other"))]

"""A test that is not collected is no test: it must be where pytest looks, under a name it knows."""

from collections import Counter
from pathlib import PurePath
from typing import Final

from tests.architecture.tree import ROOT, Module, modules

# Collected by `make bench`, `make test-s3`, `make test-msk` and `make test-image` alone.
ELSEWHERE: Final = (
    "tests/benchmarks/bench_",
    "tests/spark/s3_",
    "tests/integration/log/msk_",
    "tests/spark/msk_",
    "tests/images/image_",
)


def test_every_test_is_in_a_file_that_is_collected() -> None:
    lost = [
        f"{module.path}::{name}"
        for module in modules("tests")
        for name, _ in module.functions()
        if name.startswith("test_") and not (module.is_test or module.path.startswith(ELSEWHERE))
    ]
    assert not lost


def test_every_test_file_has_tests() -> None:
    empty = [module.path for module in modules("tests") if module.is_test and not _tests(module)]
    assert not empty


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {PurePath(module.path).parent for module in modules("tests")}
    assert not [folder for folder in folders if not (ROOT / folder / "__init__.py").is_file()]


def test_no_test_hides_another_of_its_name() -> None:
    hidden = [
        f"{module.path}::{name}"
        for module in modules("tests")
        for name, count in Counter(_tests(module)).items()
        if count > 1
    ]
    assert not hidden


def _tests(module: Module) -> list[str]:
    return [
        name
        for name, _ in module.functions()
        if name.startswith("test_") or (name.startswith("Test") and ".test_" in name)
    ]

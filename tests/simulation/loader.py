"""Imports modules of the product into a simulation, with virtual clocks and perhaps a planted bug.

It is installed in a separate process, before any module of the product is imported. It changes no
module after the import, and no file.
"""

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, Final, NamedTuple

from tests.simulation.virtual_modules import SUBSTITUTES

_PRODUCT: Final = ("app.", "workers.", "tests.fakes.")
# Import these modules unchanged. They do not run in a simulation, and their libraries would refuse
# the virtual types of times.
_AS_THEY_ARE: Final = ("app.storage.", "app.api.", "app.config", "app.store_settings")


class Replacement(NamedTuple):
    """A text that occurs once in the source of a product module, and the text that replaces it."""

    module: str
    text: str
    by: str


class _Finder(MetaPathFinder):
    def __init__(self, planted: Mapping[str, Sequence[Replacement]]) -> None:
        self._planted = planted

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PRODUCT) or fullname.startswith(_AS_THEY_ARE):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            loader = spec.loader
            spec.loader = _Loader(loader.name, loader.path, self._planted.get(fullname, ()))
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, planted: Sequence[Replacement]) -> None:
        super().__init__(name, path)
        self._planted = planted

    def get_code(self, fullname: str) -> CodeType | None:
        if not self._planted:
            return super().get_code(fullname)
        source = self.get_source(fullname) or ""
        for each in self._planted:
            if source.count(each.text) != 1:
                raise ValueError(
                    f"{fullname} has this {source.count(each.text)} times: {each.text}"
                )
            source = source.replace(each.text, each.by)
        return self.source_to_code(source.encode(), self.path)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = _BUILTINS
        super().exec_module(module)
        _settle_order(module)


def _import(name: str, *arguments: Any) -> ModuleType:  # noqa: ANN401 - those of `__import__`
    """Import a module as `__import__` does, or return its substitute.

    The last argument of `__import__` is the level of a relative import.
    """
    is_relative = len(arguments) > 3 and arguments[3] > 0
    if not is_relative and name in SUBSTITUTES:
        return SUBSTITUTES[name]
    return __import__(name, *arguments)


_BUILTINS: Final[dict[str, Any]] = {**vars(builtins), "__import__": _import}


def _settle_order(module: ModuleType) -> None:
    """Give objects that are compared by identity the same hash in each run.

    Then sets of such objects have the same order in each run.
    """
    for each in vars(module).values():
        if not isinstance(each, type) or each.__module__ != module.__name__:
            continue
        by_identity: object = vars(object)["__hash__"]
        if each.__hash__ == by_identity and not issubclass(each, BaseException):
            type.__setattr__(each, "__hash__", _constant(sum(each.__qualname__.encode())))


def _constant(number: int) -> Callable[[object], int]:
    def hash_of(_self: object) -> int:
        return number

    return hash_of


def install(planted: Sequence[Replacement] = ()) -> None:
    """Let all later imports of the product use this loader."""
    by_module: dict[str, list[Replacement]] = {}
    for each in planted:
        by_module.setdefault(each.module, []).append(each)
    early = [name for name in sys.modules if name.startswith(("app.", "workers."))]
    if early:
        raise RuntimeError(f"imported too early: {early[0]}")
    sys.meta_path.insert(0, _Finder(by_module))

"""A name stands for one thing: in app, workers and spark together."""

import ast
from collections import defaultdict

from tests.architecture.tree import modules


def test_no_public_class_name_stands_for_two_things() -> None:
    places = defaultdict[str, list[str]](list)
    for module in modules("app", "workers", "spark"):
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.path)
    assert len(places) > 1_000
    assert {name: found for name, found in places.items() if len(found) > 1} == {}

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from fastapi.routing import APIRoute

from app.api.management import ROUTERS
from app.api.openapi import as_yaml, document
from app.api.routes import status
from app.api.schemas.group import new_group
from app.api.schemas.subscription import new_subscription, state_of
from app.api.schemas.topic import new_topic

COMMITTED = Path(__file__).parents[2] / "openapi.yaml"


DOCUMENT = cache(document)
YAML = cache(as_yaml)


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in DOCUMENT()["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def example_of(name: str) -> Any:  # noqa: ANN401 - JSON is of any type
    body = dict(operations())[name]["requestBody"]
    return body["content"]["application/json"]["example"]


def test_the_committed_document_is_that_of_the_code() -> None:
    assert COMMITTED.read_text() == YAML(), "openapi.yaml is stale: run `make openapi`"


def test_the_yaml_says_what_the_code_says() -> None:
    assert yaml.safe_load(YAML()) == DOCUMENT()


def test_every_route_is_documented_and_publishing_too() -> None:
    documented = {name for name, _ in operations()}
    served = {
        f"{method} {route.path_format}"
        for router in (status.router, *ROUTERS)
        for route in router.routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods or ()
    }
    assert documented == served | {"POST /topics/{topic}", "POST /topics/{topic}/batch"}


def test_every_reference_leads_somewhere() -> None:
    schemas = DOCUMENT()["components"]["schemas"]
    names = {line.split("/")[-1].rstrip('"') for line in YAML().splitlines() if '"$ref":' in line}
    assert names
    assert names <= set(schemas)


def test_every_error_has_the_one_shape_and_an_example() -> None:
    for name, operation in operations():
        if name.endswith("/status/ready"):
            continue
        for code, answer in operation["responses"].items():
            if int(code) >= 400:
                content = answer["content"]["application/json"]
                assert content["schema"] == {"$ref": "#/components/schemas/ErrorRead"}, name
                assert set(content["example"]) == {"message", "code"}, name


def test_the_examples_of_bodies_are_valid() -> None:
    assert new_group(example_of("POST /groups"), strict=True)
    new_topic(example_of("POST /topics"), strict=True)
    create = "POST /topics/{topic}/subscriptions"
    new_subscription("shop.orders", example_of(create), strict=True)
    assert state_of(example_of("PUT /topics/{topic}/subscriptions/{name}/state"))

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml
from fastapi.routing import APIRoute

from app.api.codes import TIMEOUT, kinds
from app.api.errors import status_of_kind
from app.api.management.application import ROUTERS
from app.api.management.catalogue.group_bodies import new_group
from app.api.management.catalogue.subscription_bodies import new_subscription, state_of
from app.api.management.catalogue.topic_bodies import new_topic
from app.api.management.health import status
from app.api.openapi.components import shared
from app.api.openapi.document import document
from tests.architecture import openapi_file

DOCUMENT = cache(document)
YAML = cache(openapi_file.as_yaml)
BYTES_MAX = 400_000


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in DOCUMENT()["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def example_of(name: str) -> Any:  # noqa: ANN401 - JSON is of any type
    body = dict(operations())[name]["requestBody"]
    return body["content"]["application/json"]["example"]


def test_the_committed_document_is_that_of_the_code() -> None:
    assert openapi_file.FILE.read_text() == YAML(), "openapi.yaml is stale: run `make openapi`"


def resolved(said: Any, components: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON is of any type
    """Put the parameters and responses of the components back where they are referred to."""
    if isinstance(said, list):
        return [resolved(each, components) for each in said]
    if not isinstance(said, dict):
        return said
    _, _, kind, name = said.get("$ref", "///").split("/")
    if kind in {"parameters", "responses", "headers"}:
        return components[kind][name]
    return {key: resolved(value, components) for key, value in said.items()}


def test_the_yaml_says_what_the_code_says() -> None:
    said = yaml.safe_load(YAML())
    components = said["components"]
    paths = resolved(said["paths"], components)
    del components["parameters"], components["responses"], components["headers"]
    assert {**said, "paths": paths} == DOCUMENT()


def test_the_document_is_small() -> None:
    assert len(YAML().encode()) < BYTES_MAX


def test_nothing_that_is_repeated_stands_there_twice() -> None:
    once = shared(DOCUMENT())
    parameters = [
        json.dumps(each)
        for operations in once["paths"].values()
        for operation in operations.values()
        for each in operation.get("parameters", ())
        if "$ref" not in each
    ]
    assert len(set(parameters)) == len(parameters)
    assert "title" not in DOCUMENT()["components"]["schemas"]["TopicBody"]["properties"]["name"]


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
    components = shared(DOCUMENT())["components"]
    there = {f"#/components/{kind}/{name}" for kind, each in components.items() for name in each}
    lines = [line for line in YAML().splitlines() if "$ref:" in line]
    assert lines
    assert {line.split("'")[-2] for line in lines} <= there


def refusals() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each error answer, named by its operation and status."""
    for name, operation in operations():
        for code, answer in operation["responses"].items():
            if int(code) >= 400 and not name.endswith("/status/ready"):
                yield f"{name} {code}", answer["content"]["application/json"]


def example_at(said: dict[str, Any]) -> dict[str, Any]:
    """An example, which stands there or in the components."""
    examples = DOCUMENT()["components"]["examples"]
    found: dict[str, Any] = examples[said["$ref"].split("/")[-1]] if "$ref" in said else said
    return found


def test_every_error_has_the_one_shape_and_an_example_of_each_code() -> None:
    for name, content in refusals():
        assert content["schema"] == {"$ref": "#/components/schemas/ErrorRead"}, name
        assert content["examples"], name
        for code, said in content["examples"].items():
            value = example_at(said)["value"]
            assert value.keys() == {"message", "code"}, name
            assert (value["code"], bool(value["message"])) == (code, True), name


def test_every_code_of_an_error_is_answered_somewhere() -> None:
    answered = {code for _, content in refusals() for code in content["examples"]}
    assert answered == {kind.code for kind in kinds()} | {TIMEOUT}
    listed = DOCUMENT()["components"]["schemas"]["ErrorRead"]["properties"]["code"]["enum"]
    assert set(listed) == answered


def test_every_code_is_explained() -> None:
    for code, said in DOCUMENT()["components"]["examples"].items():
        assert said["summary"], code
        assert said["value"]["code"] == code


def test_errors_are_documented_by_the_status_that_they_are_answered_with() -> None:
    statuses = {(kind.code, str(status_of_kind(kind))) for kind in kinds()} | {
        ("TIMEOUT", "408"),
        ("VALIDATION_ERROR", "415"),
        ("OTHER", "500"),
        ("OTHER", "503"),
    }
    for name, content in refusals():
        answered_with = name.rpartition(" ")[2]
        for code in content["examples"]:
            assert (code, answered_with) in statuses, name


def test_the_examples_of_bodies_are_valid() -> None:
    assert new_group(example_of("POST /groups"), strict=True)
    new_topic(example_of("POST /topics"), strict=True)
    create = "POST /topics/{topic}/subscriptions"
    new_subscription("shop.orders", example_of(create), strict=True)
    assert state_of(example_of("PUT /topics/{topic}/subscriptions/{name}/state"))

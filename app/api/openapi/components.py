"""Makes the OpenAPI document smaller: parts that several operations share become components."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

_TWICE: Final = 2

Json = dict[str, Any]


def without_titles(schema: Any) -> Any:  # noqa: ANN401 - JSON can have any type
    """Return the schema without the titles that FastAPI and Pydantic make from names.

    Args:
        schema: Any part of a document that may hold JSON schemas.
    """
    if isinstance(schema, list):
        return [without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if not _is_title(key, value)}
    return {key: _below(key, value) for key, value in kept.items()}


def simplify_parameters(document: Json) -> None:
    """Simplify the parameters of the document in place.

    FastAPI repeats the description of each parameter, and allows null. Both are removed.
    """
    for operation in _operations(document):
        for parameter in operation.get("parameters", ()):
            schema = {k: v for k, v in parameter["schema"].items() if k != "description"}
            kinds = [each for each in schema.pop("anyOf", ()) if each != {"type": "null"}]
            parameter["schema"] = schema | (kinds[0] if len(kinds) == 1 else {})
            if len(kinds) > 1:
                parameter["schema"]["anyOf"] = kinds


def shared(document: Json) -> Json:
    """Return the document with references in place of repeated parameters, errors and headers."""
    parameters, responses = _Components("parameters"), _Components("responses")
    headers = _Components("headers")
    for operation in _operations(document):
        for parameter in operation.get("parameters", ()):
            parameters.count(f"{parameter['in']}-{parameter['name']}", parameter)
        for status, response in operation["responses"].items():
            if codes := sorted(_codes(response)):
                responses.count("-".join((status, *codes)), response)
            for name, header in response.get("headers", {}).items():
                headers.count(name, header)
    paths = {
        path: {
            method: _with_references(operation, parameters, responses, headers=headers)
            for method, operation in operations.items()
        }
        for path, operations in document["paths"].items()
    }
    components = {
        **document["components"],
        "parameters": parameters.named(),
        "responses": responses.named(),
        "headers": headers.named(),
    }
    return {**document, "paths": paths, "components": components}


class _Components:
    """The repeated parts of one kind, each with a name."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._counts: Counter[str] = Counter()
        self._names: dict[str, str] = {}
        self._parts: Json = {}

    def count(self, name: str, part: Json) -> None:
        """Count one more use of `part`. The second use makes it a component with that name.

        If other components have this name already, a number is added to the name.
        """
        text = json.dumps(part, sort_keys=True)
        self._counts[text] += 1
        if self._counts[text] == _TWICE:
            number = sum(each.split(".")[0] == name for each in self._parts)
            self._names[text] = f"{name}.{number + 1}" if number else name
            self._parts[self._names[text]] = part

    def named(self) -> Json:
        """Return all repeated parts by name, in the order of the names."""
        return dict(sorted(self._parts.items()))

    def reference(self, part: Json) -> Json:
        """Return a reference to the part; the part itself if it is used only once."""
        name = self._names.get(json.dumps(part, sort_keys=True))
        return part if name is None else {"$ref": f"#/components/{self._kind}/{name}"}


def _is_title(key: str, value: object) -> bool:
    return key == "title" and isinstance(value, str)


def _below(key: str, value: Any) -> Any:  # noqa: ANN401 - JSON can have any type
    if key in {"example", "examples", "info"}:
        return value
    if key == "properties":
        # Titles are removed only from the values of `properties`. The keys are names of fields, and
        # one field may be called `title`.
        return {name: without_titles(schema) for name, schema in value.items()}
    return without_titles(value)


def _operations(document: Json) -> Iterator[Json]:
    for operations in document["paths"].values():
        yield from operations.values()


def _codes(response: Json) -> Iterator[str]:
    """Yield the codes of an error response. Responses with the same status differ by codes."""
    for content in response.get("content", {}).values():
        yield from content.get("examples", ())


def _with_references(
    operation: Json, parameters: _Components, responses: _Components, *, headers: _Components
) -> Json:
    found: Json = {
        **operation,
        "responses": {
            status: _response(each, responses, headers)
            for status, each in operation["responses"].items()
        },
    }
    if "parameters" in operation:
        found["parameters"] = [parameters.reference(each) for each in operation["parameters"]]
    return found


def _response(response: Json, responses: _Components, headers: _Components) -> Json:
    """Return a reference to the response, or the response with references to its headers."""
    found = responses.reference(response)
    if found is not response or "headers" not in response:
        return found
    named = response["headers"].items()
    return {**response, "headers": {name: headers.reference(each) for name, each in named}}

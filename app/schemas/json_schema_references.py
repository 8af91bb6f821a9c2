"""Finds the targets of references (`$ref`) in a JSON Schema.

A target is a part of the schema, named by a JSON pointer or an anchor.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from app.schemas.json_schema_work import refused

# Keywords of JSON Schema whose value is one subschema.
_ONE: Final = (
    "not",
    "if",
    "then",
    "else",
    "items",
    "contains",
    "propertyNames",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
)
# Keywords of JSON Schema whose value is a list of subschemas.
_LISTED: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
# Keywords of JSON Schema whose value is an object with subschemas as members.
_NAMED: Final = (
    "$defs",
    "definitions",
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
)
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
# How the names of the standard schemas begin, which the engine knows.
_STANDARD: Final = "//json-schema.org/draft"


class References:
    """The parts of a JSON Schema to which a `$ref` in the same schema may lead."""

    def __init__(self, root: object) -> None:
        """Collect the parts of the schema.

        Raises:
            ValidationFailedError: A part other than the root has an `$id`.
        """
        self._root = root
        self._base = _id_of(root)
        self._anchors: dict[str, object] = {}
        self._times: Counter[str] = Counter()
        for part in parts(root):
            self.must_have_no_id(part)
            for name in {each for kind in _ANCHORS if isinstance(each := part.get(kind), str)}:
                self._anchors[name] = part
                self._times[name] += 1

    def must_have_no_id(self, part: object) -> None:
        """Check that a part has no `$id`, because an `$id` changes the targets of references.

        Raises:
            ValidationFailedError: The part has an `$id`.
        """
        if part is not self._root and _id_of(part) is not None:
            raise refused("may have an $id at its root alone")

    def target(self, reference: str) -> object:
        """Return the part of the schema to which a reference leads.

        Raises:
            ValidationFailedError: The target is not in the schema.
        """
        try:
            return self._found(reference)
        except (LookupError, ValueError, TypeError) as exc:
            raise refused(f"has a $ref to what does not exist: {reference[:100]}") from exc

    def _found(self, reference: str) -> object:
        fragment = self._fragment(reference)
        if fragment and not fragment.startswith("/"):
            if self._times[fragment] > 1:
                raise refused(f"has several anchors of the name {fragment[:100]}")
            return self._anchors[fragment]
        found: Any = self._root
        for part in unquote(fragment[1:]).split("/") if fragment else ():
            name = part.replace("~1", "/").replace("~0", "~")
            found = found[int(name)] if isinstance(found, list) else found[name]
            self.must_have_no_id(found)
        return found

    def _fragment(self, reference: str) -> str:
        if not reference:
            raise refused("must refer to # instead of an empty name")
        if reference.startswith("#"):
            return reference[1:]
        base = urldefrag(self._base or "").url
        url, fragment = urldefrag(urljoin(base, reference))
        if not base or url != base or _STANDARD in base.lower():
            raise refused(f"may refer to its own parts alone, not to {reference[:100]}")
        return fragment


def name_the_whole(root: object) -> None:
    """Replace each empty `$ref` by `#`, which means the whole schema.

    The engine would ignore an empty `$ref`.
    """
    for part in parts(root):
        if part.get("$ref") == "":
            part["$ref"] = "#"


def _id_of(part: object) -> str | None:
    found = part.get("$id") if isinstance(part, dict) else None
    return found if isinstance(found, str) else None


def parts(root: object) -> Iterator[dict[str, Any]]:
    """Yield all subschemas.

    Values that only look like schemas (in `const`, `enum`, `examples`) are left out.
    """
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += (part[name] for name in _ONE if name in part)
            for name in _LISTED:
                waiting += part[name] if isinstance(part.get(name), list) else ()
            for name in _NAMED:
                waiting += part[name].values() if isinstance(part.get(name), dict) else ()

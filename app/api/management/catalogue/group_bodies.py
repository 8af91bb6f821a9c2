"""Group bodies."""

from typing import Final

from pydantic import Field

from app.api.bodies.base import (
    Ignored,
    JsonObject,
    OtherFields,
    Rules,
    Schema,
    ignored_fields,
    merged,
    parse,
)

OTHER_FIELDS: Final = OtherFields()


class GroupBody(Schema):
    """A group with its name: letters, digits and dots."""

    group_name: str = Field(examples=["shop"])


def new_group(body: JsonObject, *, strict: bool, fixed: str | None = None) -> str:
    """Return the name of the group in a body. If `fixed` is set, the name must equal `fixed`.

    Raises:
        ValidationFailedError: The name or the body is not valid.
    """
    must = {"groupName": fixed} if fixed else {}
    rules = Rules(others=OTHER_FIELDS, fixed=must, strict=strict)
    return parse(GroupBody, merged({}, body), rules).group_name


def ignored_in_group(body: JsonObject) -> tuple[Ignored, ...]:
    """Return the fields of a group body that have no effect."""
    return ignored_fields(GroupBody, body, OTHER_FIELDS)

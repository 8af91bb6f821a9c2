from app.api.publish_typed import SchemaCheck
from app.services.directory import TopicDirectory
from app.services.fresh_schemas import FreshSchemas


async def nothing_new() -> None:
    """What is taken in when nothing has changed."""


def schema_check(directory: TopicDirectory) -> SchemaCheck:
    """Checks against what `directory` knows; nobody has newer versions."""
    return SchemaCheck(directory, FreshSchemas(nothing_new))

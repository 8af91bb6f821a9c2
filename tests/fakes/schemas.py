from app.api.publish.schema_check import SchemaCheck
from app.services.catalogue.fresh_schemas import FreshSchemas
from app.services.directory.topics import TopicDirectory


async def nothing_new() -> None:
    """What is taken in when nothing has changed."""


def schema_check(directory: TopicDirectory) -> SchemaCheck:
    """Checks against what `directory` knows; nobody has newer versions."""
    return SchemaCheck(directory, FreshSchemas(nothing_new))

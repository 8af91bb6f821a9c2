from app.api.publish.schema_check import SchemaCheck
from app.services.catalogue.fresh_schemas import FreshSchemas
from app.services.directory.topics import TopicDirectory


async def nothing_new() -> None:
    """Do nothing, as a search for new changes that finds none."""


def schema_check(directory: TopicDirectory) -> SchemaCheck:
    """Return a check with the schemas that `directory` has. There are no newer versions."""
    return SchemaCheck(directory, FreshSchemas(nothing_new))

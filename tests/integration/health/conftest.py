import pytest

from app.storage.database import Database
from tests.integration.health.watched import Watched


@pytest.fixture
def watched(database: Database) -> Watched:
    """Nothing so far, on the test's database."""
    return Watched(database)

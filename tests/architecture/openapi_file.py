"""Writes openapi.yaml from the code: `python -m tests.architecture.openapi_file`."""

import json

import yaml

from app.api.openapi.components import shared
from app.api.openapi.document import document
from tests.architecture.tree import ROOT

FILE = ROOT / "openapi.yaml"


def as_yaml() -> str:
    """The document as YAML, the same for the same code."""
    # As JSON has it: without enums, and with no object that stands in two places.
    plain = json.loads(json.dumps(shared(document())))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120)


if __name__ == "__main__":
    FILE.write_text(as_yaml())

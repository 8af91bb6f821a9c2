"""Writes docs/settings.md from the settings: `python -m tests.architecture.settings_page`."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.config import Settings
from app.secret_files import variables
from tests.architecture.tree import ROOT

PAGE: Final = ROOT / "docs" / "settings.md"
# The setting that each section begins with, in the order in which the code declares them.
SECTIONS: Final[Mapping[str, str]] = {
    "home": "Database and log",
    "host": "API",
    "log_level": "Workers, metrics and logs",
    "schema_registry_url": "Schema registry",
    "otlp_endpoint": "OpenTelemetry",
    "undelivered_days": "How long things are kept",
    "health_interval": "Health and alerts",
    "allow_private_endpoints": "Endpoints and secrets",
    "replication_factor": "Kafka topics",
    "spark_master": "Spark",
}

_MARK: Final = "<!-- From here on written by `make settings`. -->"
_WIDTH: Final = 120


def page() -> str:
    """The text of the page: its introduction as it is, and a list for each section."""
    introduction = PAGE.read_text().partition(_MARK)[0]
    return f"{introduction}{_MARK}\n" + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    for name, schema in Settings.model_json_schema()["properties"].items():
        if name in SECTIONS:
            yield from ("", f"## {SECTIONS[name]}", "")
        item = _item(" or ".join(f"`{each}`" for each in variables(Settings, name)), schema)
        yield from textwrap.wrap(item, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _item(variable: str, schema: Mapping[str, Any]) -> str:
    value = next((each for each in schema.get("anyOf", ()) if each["type"] != "null"), schema)
    default = _text(schema["default"])
    facts = [f"default `{default}`" if default else "", _allowed(value)]
    shown = "; ".join(fact for fact in facts if fact)
    return f"* **{variable}**{f' ({shown})' if shown else ''}: {schema['description']}."


def _text(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, list):
        return ",".join(default)
    return "" if default is None else str(default)


def _allowed(value: Mapping[str, Any]) -> str:
    if "enum" in value:
        return "one of " + ", ".join(f"`{each}`" for each in value["enum"])
    if value["type"] == "boolean":
        return f"or `{_text(not value['default'])}`"
    above = f"above {value['exclusiveMinimum']}" if "exclusiveMinimum" in value else ""
    least = f"from {value['minimum']:,}" if "minimum" in value else above
    most = f"to {value['maximum']:,}" if "maximum" in value else ""
    return " ".join(part for part in (least, most) if part)


if __name__ == "__main__":
    PAGE.write_text(page())

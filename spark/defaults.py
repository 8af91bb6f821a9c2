"""Reads the operator's settings in `spark-defaults.conf`, which replace Angelia's defaults."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyspark

from app.config import spark_conf_folder

# A line of a Java properties file: a name, then spaces, `=` or `:`, then the value.
_LINE: Final = re.compile(r"([^\s=:]+)\s*[=:\s]?\s*(.*)")
_COMMENTS: Final = ("#", "!")


def operator_settings() -> Mapping[str, str]:
    """Return the settings in `spark-defaults.conf`, from the folder where Spark looks for it."""
    folder = spark_conf_folder() or Path(pyspark.__file__).parent / "conf"
    file = folder / "spark-defaults.conf"
    return dict(_settings(file.read_text("utf-8"))) if file.is_file() else {}


def _settings(text: str) -> Iterator[tuple[str, str]]:
    # A line that ends with a backslash continues on the next line.
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        found = _LINE.fullmatch(line.strip())
        if found and not line.strip().startswith(_COMMENTS):
            yield found[1], found[2]

"""The process that Spark forks its Python workers from: it has imported what each of them needs.

Spark's own begins with the archive of PySpark's sources. There each worker compiles what it
imports, reads the archive's directory again, and after each task looks for garbage in all that it
has imported: most of the CPU that a short job's Python takes.
"""

import gc
import sys
from importlib import import_module
from typing import Final

# What tasks refer to, and what PySpark imports when the first of them runs.
NEEDED: Final = ("pandas", "pyarrow.compute", "spark.engine")


def main() -> None:
    """Answer Spark's questions for workers until it goes."""
    # PySpark is installed beside us, too, and compiled there.
    sys.path[:] = [place for place in sys.path if not place.endswith(".zip")]
    manager = import_module("pyspark.daemon").manager
    for name in NEEDED:
        import_module(name)
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()

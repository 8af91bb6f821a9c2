"""The process from which Spark forks its Python workers. It has imported all that workers need.

Spark's own daemon uses a zip file of PySpark's sources. With it, each worker compiles its imports,
reads the zip file's directory again, and collects garbage among all imported objects after each
task. In a short job, that takes most of the CPU time of Python.
"""

import gc
import sys
from importlib import import_module
from typing import Final

# The modules that tasks use, and those that PySpark imports for the first task.
NEEDED: Final = ("pandas", "pyarrow.compute", "spark.engine")


def main() -> None:
    """Serve Spark's requests for workers until Spark ends."""
    # Use the installed PySpark instead of Spark's zip file, because the installed one is compiled.
    sys.path[:] = [path for path in sys.path if not path.endswith(".zip")]
    manager = import_module("pyspark.daemon").manager
    for name in NEEDED:
        import_module(name)
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()

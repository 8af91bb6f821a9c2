"""The process from which Spark forks its Python workers. It has imported all that they need.

Spark's own daemon uses a zip file with the sources of PySpark. A worker of that daemon compiles its
imports, reads the directory of the zip file again, and after each task collects garbage among all
imported objects. In a short job, this work takes most of the CPU time of Python.
"""

import gc
import sys
from importlib import import_module
from typing import Final

# The modules to import before forking: those that tasks use, and those that PySpark imports for the
# first task.
NEEDED: Final = ("pandas", "pyarrow.compute", "spark.engine")


def main() -> None:
    """Serve Spark's requests for Python workers until Spark ends."""
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

"""The process from which Spark forks its Python workers: it has imported what each of them needs.

Spark's own daemon starts from the archive of PySpark's sources. There each worker compiles its
imports, reads the archive's directory again, and runs the garbage collector over all imports after
each task: this is most of the CPU time of a short job's Python.
"""

import gc
import sys
from importlib import import_module
from typing import Final

# What tasks use, and what PySpark imports for the first task.
NEEDED: Final = ("pandas", "pyarrow.compute", "spark.engine")


def main() -> None:
    """Serve Spark's requests for workers until it ends."""
    # PySpark is installed beside Angelia too, and compiled there.
    sys.path[:] = [place for place in sys.path if not place.endswith(".zip")]
    manager = import_module("pyspark.daemon").manager
    for name in NEEDED:
        import_module(name)
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()

"""The jobs: each reads, transforms and writes, in the runner or by `spark-submit`."""

"""The jobs. Each job reads, transforms and writes, in the runner or by `spark-submit`."""

"""The worker process: reads the log and delivers by HTTP."""

import app  # noqa: F401 - has compiled modules found, also those of this package

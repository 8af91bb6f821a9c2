"""The worker process: reads the log and delivers by HTTP."""

import app  # noqa: F401 - makes later imports find compiled modules, also those of this package

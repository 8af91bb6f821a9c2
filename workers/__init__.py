"""The worker process: reads the log and delivers by HTTP."""

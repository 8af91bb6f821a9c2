"""The data plane: reads the log and delivers by HTTP."""

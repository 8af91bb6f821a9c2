"""Which messages a subscription wants: the same code for workers and for the filter debugger."""

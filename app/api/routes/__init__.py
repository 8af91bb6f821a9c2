"""The management routes, one module per resource: each only translates."""

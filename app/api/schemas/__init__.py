"""The JSON of the API: what comes in and goes out, to and from domain values."""

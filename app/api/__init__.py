"""HTTP in: routes and schemas. Translates between requests and services, and decides nothing."""

"""HTTP in: routes and bodies. Translates between requests and services, and decides nothing."""

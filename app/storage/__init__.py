"""All SQL of the database: engine, tables, repositories. Callers get domain values, no rows."""

"""All SQL of the control plane: engine, tables, repositories. Rows in, domain values out."""

"""All SQL of the control plane: engine, models, repositories. Rows in, domain values out."""

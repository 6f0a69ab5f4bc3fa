"""Small tables without Spark: views as Arrow tables, and the same SQL on them by DuckDB."""

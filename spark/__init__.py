"""PySpark data sources over metadata and data logs."""

"""PySpark data sources over metadata and data logs: `session()`, `register(spark)`, `views(spark, path)`,
`decoded(frame, registry=…)`.

The package is loaded in users' interpreters, so each name imports its module on first use (PEP 562).
"""

from importlib import import_module

__all__ = ["decoded", "register", "session", "views"]

_HOMES = {
    "session": "trimaran.spark.sessions.session",
    "decoded": "trimaran.spark.schema_values.decoded",
    "register": "trimaran.spark.sources",
    "views": "trimaran.spark.sources",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

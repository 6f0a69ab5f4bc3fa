"""Options of tables in a catalog: `CREATE TABLE t USING kafka_log OPTIONS (path '…')`, `LOCATION '…'`.

Spark passes such options to a Python source only when the table is created and `schema` is called, among properties of
the table. A read of the table passes none, only those of the query itself (`SELECT … FROM t WITH (…)`). But the catalog
keeps the metadata of columns, and passes them with the schema, so the first column carries the options. Source:
`V2SessionCatalog` and `PythonScanBuilder` of Spark 4.3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import unquote

from pyspark.sql.types import StructField, StructType

from trimaran.node.config.security_keys import CLIENT_SECURITY
from trimaran.spark.kafka_options import PREFIX
from trimaran.spark.options import OptionError

KEPT = "trimaran.options"  # the key of the metadata
_GIVEN = "option."  # the prefix of options among the properties of a table
# Options that name the data: if a query gives one of them, the options of the table do not apply.
_PLACES = ("path", "paths", "kafka.bootstrap.servers", "kafka.controller.bootstrap.servers")
_PASSWORDS = {PREFIX + key.name for key in CLIENT_SECURITY if key.kind == "password"}
_OF_STORAGE = (
    "storage."  # for the library of an object store, which may take keys and tokens by any name
)


def table_options(source: str, given: Mapping[str, str]) -> dict[str, str] | None:
    """Returns the options of a table that is being created; None if these are the options of a read.

    Raises:
        OptionError: one of them is a password or may be one, which all readers of the catalog would see.
    """
    if given.get("provider", "").lower() != source or "owner" not in given:
        return None
    options = {
        name.removeprefix(_GIVEN): value for name, value in given.items() if name.startswith(_GIVEN)
    }
    if "path" in given and "path" not in options:  # Spark made a URL of it
        options["path"] = unquote(given["path"].removeprefix("file:"))
    for name in options:
        if name.lower() in _PASSWORDS or name.lower().startswith(_OF_STORAGE):
            raise OptionError(
                f"{source}: option {name}: a table's options are readable in the catalog; give it with each query, "
                "as in SELECT … FROM t WITH (…), or use a temporary view"
            )
    return options


def with_options(schema: StructType, options: Mapping[str, str] | None) -> StructType:
    """Returns the schema of a table, which carries its options if there are any."""
    if options is None:
        return schema
    first, *rest = schema.fields
    kept = {**(first.metadata or {}), KEPT: json.dumps(options, sort_keys=True)}
    return StructType([StructField(first.name, first.dataType, first.nullable, kept), *rest])


def read_options(given: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """Returns the options of a read: those of its table, overridden by the query's; only the query's if they name the
    data.
    """
    if any(name in given for name in _PLACES):
        return given
    found = [field.metadata[KEPT] for field in schema.fields if KEPT in (field.metadata or {})]
    return {**json.loads(found[0]), **given} if found else given

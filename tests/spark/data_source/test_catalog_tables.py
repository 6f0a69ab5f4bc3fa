"""Options of a table that is being created: none that may be secret is kept, because the catalog shows all of them."""

import pytest

pytest.importorskip("pyspark")

from tests.checks import check_each
from trimaran.node.config.security_keys import CLIENT_SECURITY
from trimaran.spark.data_source.catalog_tables import table_options
from trimaran.spark.options import OptionError

SECRET = [
    *(f"kafka.{key.name}" for key in CLIENT_SECURITY if key.kind == "password"),
    "storage.secret",
    "storage.token",
]


def created(source, **options):
    given = {f"option.{name}": value for name, value in options.items()}
    return table_options(source, {"provider": source, "owner": "ann", **given})


def test_no_secret_is_kept_in_any_spelling():
    def check(name):
        for spelling in (name, name.upper(), name.title()):
            for source in ("kafka_log", "kafka_metadata"):
                with pytest.raises(OptionError, match="readable in the catalog") as error:
                    created(source, **{"path": "/p", spelling: "s3cret"})
                assert "s3cret" not in str(error.value)

    assert "kafka.sasl.jaas.config" in SECRET
    check_each(SECRET, check)


def test_other_options_are_kept_as_written():
    options = {"path": "/p", "kafka.ssl.truststore.location": "/ca.pem", "SUBSCRIBE": "a"}
    assert created("kafka_log", **options) == options

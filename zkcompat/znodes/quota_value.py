"""The text of a client quota among the configs of a user, client or ip.

Source: the types of `QuotaConfigs`, and `ZkConfigMigrationClient.writeClientQuotas` of Kafka 3.9, which wrote longs and
ints without a fraction and doubles as `Double.toString` does.
"""

from __future__ import annotations

import math
from decimal import Decimal

_WHOLE = ("producer_byte_rate", "consumer_byte_rate", "connection_creation_rate")
_FRACTIONS = ("request_percentage", "controller_mutation_rate")
QUOTA_KEYS = (*_WHOLE, *_FRACTIONS)
# As in Kafka: 99.9999999 was meant to be 100.
_EPSILON = 1e-6


def quota_text(key: str, value: float) -> str:
    """Returns the text that ZooKeeper mode stored for a value that is a double in the metadata log."""
    if key in _WHOLE and math.isfinite(value):
        return str(int(value + _EPSILON))
    return _java_double(value)


def _java_double(value: float) -> str:
    """`Double.toString`: plain from 10^-3 to below 10^7, else one digit before the point and an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    exact = Decimal(repr(value)).normalize()
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = format(exact, "f")
        return plain if "." in plain else f"{plain}.0"
    sign, digits, _ = exact.as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{exact.adjusted()}"

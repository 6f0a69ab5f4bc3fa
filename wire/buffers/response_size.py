"""The maximum size of a response. The transport counts its bytes while the response is built; encoders raise an error
at the second bound, for any handler.
"""

from __future__ import annotations

from trimaran.wire.errors import ErrorCode, KafkaError

# The bound of a response that reports state of the node. It is below the frame that clients accept (librdkafka: 100
# MB), a quarter of the memory of all responses, and above the needs of a large cluster: all topics with 200,000
# partitions take 16 MiB, 100,000 groups 10 MiB, the configs of 1,000 topics with synonyms and documentation 18 MiB.
RESPONSE_BYTES_MAX = 32 << 20
# The bound with repeated names: a response may repeat each name of its request with an error, and a request cannot be
# larger than this.
ENCODED_BYTES_MAX = 2 * RESPONSE_BYTES_MAX


class ResponseTooLarge(KafkaError):
    """The request needs a larger response than permitted. It is the client's fault, and repeating it is useless:
    POLICY_VIOLATION, as Kafka responds to other excessive requests.
    """

    def __init__(self) -> None:
        size = RESPONSE_BYTES_MAX >> 20
        super().__init__(
            ErrorCode.POLICY_VIOLATION,
            f"The response would have more than {size} MiB; ask for fewer things in a request.",
        )


def raise_too_large() -> None:
    """Raises ResponseTooLarge; called by generated encoders of responses."""
    raise ResponseTooLarge

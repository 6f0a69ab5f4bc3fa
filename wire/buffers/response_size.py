"""How many bytes one response may have. The transport counts while it is made (`trimaran.wire.transport.memory.room`);
encoders raise at the second number, whatever a handler did.
"""

from __future__ import annotations

from trimaran.wire.errors import ErrorCode, KafkaError

# What a node tells of its own state in one response. Below the frame that clients take (librdkafka: 100 MB), a quarter
# of what all responses may hold, and above what a large cluster is asked for: all topics with 200,000 partitions take
# 16 MiB, 100,000 groups 10, the configs of 1,000 topics with synonyms and documentation 18.
RESPONSE_BYTES_MAX = 32 << 20
# With what only repeats the names of a request, to say an error of each: a request has no more bytes to repeat.
ENCODED_BYTES_MAX = 2 * RESPONSE_BYTES_MAX


class ResponseTooLarge(KafkaError):
    """The request asks for more than one response may have. The client's fault, and no use to repeat: POLICY_VIOLATION,
    as Kafka answers other requests for too much at once.
    """

    def __init__(self) -> None:
        size = RESPONSE_BYTES_MAX >> 20
        super().__init__(
            ErrorCode.POLICY_VIOLATION,
            f"The response would have more than {size} MiB; ask for fewer things in a request.",
        )


def raise_too_large() -> None:
    """Called by generated encoders of responses."""
    raise ResponseTooLarge

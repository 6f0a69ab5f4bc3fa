from trimaran.wire.errors import MESSAGE_CHARS_MAX, ErrorCode, KafkaError


def test_error_codes_have_no_gap():
    assert [int(code) for code in ErrorCode] == list(range(-1, 137))


def test_error_codes_have_kafkas_names():
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == 6
    assert ErrorCode.INCONSISTENT_GROUP_PROTOCOL == 23
    assert ErrorCode.INVALID_SESSION_TIMEOUT == 26
    assert ErrorCode.INVALID_RECORD == 87


def test_retriable_codes_are_those_of_kafka():
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.retriable
    assert not ErrorCode.NONE.retriable
    assert not ErrorCode.UNKNOWN_SERVER_ERROR.retriable
    assert not ErrorCode.MESSAGE_TOO_LARGE.retriable


def test_code_of_later_kafka_is_unknown():
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_kafka_error_names_its_code():
    assert str(KafkaError(ErrorCode.INVALID_RECORD)) == "INVALID_RECORD"
    assert str(KafkaError(ErrorCode.INVALID_RECORD, "no key")) == "INVALID_RECORD: no key"
    assert KafkaError(ErrorCode.INVALID_RECORD).message == "Invalid record."
    assert KafkaError(ErrorCode.INVALID_RECORD).is_bare
    assert KafkaError(ErrorCode.INVALID_RECORD, "INVALID_RECORD").is_bare
    assert not KafkaError(ErrorCode.INVALID_RECORD, "no key").is_bare


def test_length_of_error_message_is_bounded():
    error = KafkaError(ErrorCode.INVALID_CONFIG, "x" * 100_000)
    assert len(error.message) <= MESSAGE_CHARS_MAX + 1
    assert error.message.endswith("…")
    assert KafkaError(ErrorCode.INVALID_CONFIG, "short").message == "short"

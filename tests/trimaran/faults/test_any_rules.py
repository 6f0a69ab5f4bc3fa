"""Any rules, with any requests: a rule is refused with a reason, or the connection continues."""

from hypothesis import given
from hypothesis import strategies as st

from tests.checks import assert_only_raises
from tests.trimaran.faults.engine import EngineHarness
from tests.trimaran.faults.samples import sample
from tests.trimaran.faults.test_all_apis import answered
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.places import places_of, zero_struct
from trimaran.faults.plan_error import PlanError
from trimaran.faults.plan_file import parse_plan, plan_text
from trimaran.faults.rule_parser import RULE_KEYS, api_named, parse_rule
from trimaran.faults.rules import FaultPlan
from trimaran.wire.messages.registry import REQUESTS, ApiKey

APIS = ["Produce", "Fetch", "Metadata", "OffsetCommit", "OffsetFetch", "ShareFetch"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=True)
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=5,
)
CHANGES = st.dictionaries(
    st.sampled_from(
        [
            "response.throttle_time_ms",
            "response.topics.partitions.error_code",
            "request.group_id",
            "request.topics.topic_id",
            "response.responses.partitions.records",
        ]
    ),
    st.integers(-9, 1 << 40) | st.text(max_size=3),
    min_size=1,
    max_size=2,
)
LIKELY = {
    "api": st.sampled_from(APIS) | st.lists(st.sampled_from(APIS), min_size=1, max_size=3),
    "topic": st.sampled_from(["topic-1", "t*", "x"]),
    "partition": st.sampled_from([0, 1, [1, 2]]),
    "group": st.sampled_from(["g*", "*"]),
    "error": st.sampled_from(["NOT_COORDINATOR", "NOT_LEADER_OR_FOLLOWER", -1, 74]),
    "change": CHANGES,
    "delay": st.sampled_from([0, 1.5, [0, 1], {"mean": 1}]),
    "hold": st.sampled_from(["request", "response"]),
    "drop": st.sampled_from(["request", "response"]),
    "close": st.sampled_from(["before", "middle", "after"]),
    "truncate": st.integers(1, 50),
    "duplicate": st.sampled_from(["request", "response"]),
    "corrupt": st.sampled_from(["request", "response"]),
    "leaders": st.sampled_from(["stale", "wrong", "none"]),
    "advertise": st.just("h:1"),
    "times": st.integers(1, 3),
    "probability": st.sampled_from([0.5, 1]),
}
GOOD = st.fixed_dictionaries({}, optional=LIKELY)
KEYS = st.sampled_from(sorted(RULE_KEYS)) | st.text(max_size=5)
PLANS = st.text(max_size=99) | st.text('[]rules\n="{}api', max_size=60)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_keywords_are_a_rule_or_are_refused(keywords):
    assert_only_raises(PlanError, lambda: parse_rule(keywords, name="a"))


@given(PLANS)
def test_any_text_is_a_plan_or_is_refused(text):
    assert_only_raises(PlanError, lambda: parse_plan(text))


def rules_of(keywords):
    for number, each in enumerate(keywords):
        try:
            yield parse_rule(each, name=f"r{number}")
        except PlanError:
            continue


def request_of(name, number):
    """Returns a request with two items, and its version."""
    api = api_named(name)
    low, high = REQUESTS[api].VERSIONS
    version = low + number % (high - low + 1)
    places = [place for place in places_of(api, version) if place.request]
    request = sample(api, version, places[-1])[0] if places else zero_struct(REQUESTS[api])
    if api == ApiKey.PRODUCE:
        request.acks = number % 2
    return request, version


@given(
    st.lists(GOOD, max_size=4),
    st.lists(st.tuples(st.sampled_from(APIS), st.integers(0, 20)), max_size=4),
)
def test_any_rules_leave_the_engine_usable(keywords, requests):
    faults = FaultSet(clock=lambda: 0.0)
    plan = FaultPlan(tuple(rules_of(keywords)), 3)
    faults.add_plan(plan)
    assert parse_plan(plan_text(plan)) == plan
    harness = EngineHarness(
        lambda request, version: (
            None if getattr(request, "acks", 1) == 0 else answered(request, version)
        ),
        faults,
    )
    for name, number in requests:
        harness.request(*request_of(name, number))
        harness.respond(number % 3)
    harness.respond()
    assert faults.script_errors == []
    assert len(harness.responses) <= 2 * len(requests)

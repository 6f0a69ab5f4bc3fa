"""Places outside of `broker/groups` that name the kinds of groups follow the table of kinds. A kind is served if its
feature is; it then has a line in the table, a heartbeat and effective configs. The pages name all other kinds as not
implemented.
"""

import re
from pathlib import Path
from typing import get_args

import pytest

from tests.test_access import REGISTRIES
from trimaran.broker.groups.registry import KINDS, serde_of
from trimaran.cli.group_views import VIEWS
from trimaran.cli.group_views import Kind as KindName
from trimaran.client.group_kinds import KINDS as GROUP_REQUESTS
from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.node.config.group_keys import KINDS as KINDS_WITH_CONFIGS
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.quorum.metadata.features import FEATURES
from trimaran.wire.messages.registry import REQUESTS

ROOT = Path(__file__).parents[3]
KNOWN = {kind.name for kind in KINDS}
FEATURE_OF = {"consumer": "group.version", "share": "share.version", "streams": "streams.version"}
SERVED = {kind for kind, feature in FEATURE_OF.items() if FEATURES[feature].served}


def section(page, title):
    """Returns the text below a heading, in lower case."""
    (found,) = re.findall(
        rf"^## {title}\n(.*?)(?=^## |\Z)", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL
    )
    return found.lower()


def test_classic_groups_are_the_first_kind():
    assert KINDS[0].name == "classic"
    assert {"classic", *KINDS_WITH_CONFIGS} >= KNOWN >= {"classic", *SERVED}


def test_each_type_of_records_is_of_one_kind():
    types = [type_.key.KEY for kind in KINDS for type_ in kind.records]
    assert len(types) == len(set(types))
    assert serde_of().decode(b"\0\1\0\1g\0\1t\0\0\0\0", None) is not None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_command_line_knows_kinds_and_states(kind):
    assert GROUP_REQUESTS.keys() == VIEWS.keys() == set(get_args(KindName)) == KNOWN
    assert set(VIEWS[kind.name].states) == set(kind.states)


@pytest.mark.parametrize("kind", KINDS_WITH_CONFIGS)
@pytest.mark.parametrize("request_name", ["Heartbeat", "Describe"])
def test_kinds_of_the_table_have_their_requests(kind, request_name):
    names = {REQUESTS[key].__name__ for key in REGISTRIES["Brokers"].api_versions()}
    has_request = f"{kind.capitalize()}Group{request_name}Request" in names
    assert has_request <= (kind in KNOWN)
    assert has_request >= (kind in SERVED)


@pytest.mark.parametrize("kind", KINDS_WITH_CONFIGS)
def test_configs_of_served_kinds_have_effect(kind):
    keys = [key for key in GROUP_CONFIGS.values() if key.name.startswith(f"{kind}.")]
    keys += [key for key in SERVER_CONFIGS.values() if key.name.startswith(f"group.{kind}.")]
    waiting = [key.name for key in keys if key.no_effect.endswith("groups are not served yet")]
    assert not (waiting and kind in SERVED)
    assert kind in KNOWN or all(key.no_effect for key in keys)


@pytest.mark.parametrize("kind", KINDS_WITH_CONFIGS)
@pytest.mark.parametrize(
    ("page", "title"), [("README.md", "Status"), ("docs/brokers.md", "Not implemented yet")]
)
def test_pages_name_unserved_kinds_as_not_implemented(kind, page, title):
    assert (f"{kind} groups" in section(page, title)) == (kind not in SERVED)

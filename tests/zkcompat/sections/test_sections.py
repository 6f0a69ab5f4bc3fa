"""Quotas, credentials, ACLs and tokens: paths, bytes and notifications as Apache Kafka 3.9.1 writes them."""

import pytest

from tests.zkcompat import build
from tests.zkcompat.build import CLUSTER_ID
from tests.zkcompat.model import plan, reconcile, render
from trimaran.quorum.metadata.image import EMPTY
from trimaran.zkcompat.sections.configs import resolve
from trimaran.zkcompat.sections.registry import sections_of
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.znodes.quota_value import quota_text

CHANGES = "/kafka-acl-changes/acl_changes_"
WITH_SECRETS = sections_of(CLUSTER_ID, secrets=True)


def written(before, *records, secrets=False):
    delta, after = build.replay(before, *records)
    sections = WITH_SECRETS if secrets else sections_of(CLUSTER_ID)
    lines = [
        " ".join([o.kind.value, o.path, *([o.data.decode()] if o.data else [])])
        for o in plan(delta, after, sections)
    ]
    return lines, after


def render_paths(image):
    return {f"create {path}" for path in render(image, CLUSTER_ID)}


def config(**values):
    members = ",".join(f'"{key}":"{value}"' for key, value in values.items())
    return f'{{"version":1,"config":{{{members}}}}}'


def config_note(path):
    return f'create /config/changes/config_change_ {{"version":2,"entity_path":"{path}"}}'


def test_quotas_are_at_kafkas_paths():
    lines, image = written(
        EMPTY,
        build.quota("connection_creation_rate", 5.0, ip="127.0.0.9"),
        build.quota("consumer_byte_rate", 7.0, client=None, user="bob"),
        build.quota("consumer_byte_rate", 8.0, user="bob2"),
        build.quota("consumer_byte_rate", 11.0, client="legacy app/1"),
        build.quota("controller_mutation_rate", 1000.0, user=None),
    )
    assert lines == [
        "create /config/users/bob",
        "create /config/users/bob/clients",
        f"create /config/users/bob/clients/<default> {config(consumer_byte_rate=7)}",
        config_note("users/bob/clients/<default>"),
        f"create /config/users/bob2 {config(consumer_byte_rate=8)}",
        config_note("users/bob2"),
        f"create /config/users/<default> {config(controller_mutation_rate=1000.0)}",
        config_note("users/<default>"),
        f"create /config/clients/legacy%20app%2F1 {config(consumer_byte_rate=11)}",
        config_note("clients/legacy%20app%2F1"),
        f"create /config/ips/127.0.0.9 {config(connection_creation_rate=5)}",
        config_note("ips/127.0.0.9"),
    ]
    # The last value is removed, and with it the znode and parents that only led to it.
    lines, _ = written(
        image,
        build.quota("connection_creation_rate", None, ip="127.0.0.9"),
        build.quota("consumer_byte_rate", None, client=None, user="bob"),
    )
    assert lines == [
        "delete /config/users/bob/clients/<default>",
        "delete /config/users/bob/clients",
        "delete /config/users/bob",
        config_note("users/bob/clients/<default>"),
        config_note("users/bob"),
        "delete /config/ips/127.0.0.9",
        config_note("ips/127.0.0.9"),
    ]


def test_user_acl_parents_are_created_once_and_stay():
    """The parents are created only if needed: kafka-acls of Kafka 1.1 fails if they exist."""
    parents = ["create /kafka-acl/User", "create /kafka-acl-extended/prefixed/User"]
    lines, image = written(EMPTY, build.acl(1, "orders"))
    assert not set(parents) & set(render_paths(EMPTY) | render_paths(image))
    lines, image = written(image, build.acl(2, "bob", resource_type=7))
    assert lines[:2] == parents
    assert lines[2].startswith("create /kafka-acl/User/bob ")
    lines, image = written(image, build.acl(3, "eve", resource_type=7))
    assert [line.split()[1] for line in lines] == ["/kafka-acl/User/eve", CHANGES]
    found = {path: FoundZnode(z.data) for path, z in render(image, CLUSTER_ID).items()}
    lines, image = written(image, build.no_acl(2), build.no_acl(3))
    gone = [line for line in lines if line.startswith("delete")]
    assert gone == ["delete /kafka-acl/User/bob", "delete /kafka-acl/User/eve"]
    repaired = [operation.path for operation in reconcile(found, image, CLUSTER_ID, 1)]
    assert not {"/kafka-acl/User", "/kafka-acl-extended/prefixed/User"} & set(repaired)


def test_names_invalid_for_znodes_are_omitted():
    """ZooKeeper would refuse them forever, and ZooKeeper mode could not store them."""
    lines, image = written(
        EMPTY,
        build.quota("consumer_byte_rate", 7.0, user=".."),
        build.quota("consumer_byte_rate", 7.0, user="bob", client="."),
        build.quota("consumer_byte_rate", 7.0, client=".."),
        build.scram(".."),
        *(build.acl(n, name) for n, name in enumerate((".", "..", "a/b", "a\x01", "\U0001f600"))),
        secrets=True,
    )
    assert lines == []
    lines, _ = written(image, build.quota("consumer_byte_rate", None, user=".."), secrets=True)
    assert lines == []


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("producer_byte_rate", 50000000.0, "50000000"),
        ("consumer_byte_rate", 6.9999999, "7"),
        ("connection_creation_rate", 5.0, "5"),
        ("request_percentage", 12.5, "12.5"),
        ("controller_mutation_rate", 1000.0, "1000.0"),
        ("controller_mutation_rate", 1e7, "1.0E7"),
        ("controller_mutation_rate", 123456789.5, "1.234567895E8"),
        ("request_percentage", 0.001, "0.001"),
        ("request_percentage", 0.00012, "1.2E-4"),
        ("request_percentage", 0.0, "0.0"),
        ("request_percentage", float("inf"), "Infinity"),
    ],
)
def test_numbers_are_formatted_by_type_of_key(key, value, text):
    assert quota_text(key, value) == text


SCRAM_TEXT = (
    "salt=c2FsdHNhbHQx,stored_key=c3RvcmVkLWtleQ==,server_key=c2VydmVyLWtleQ==,iterations=8192"
)


def test_credentials_are_mirrored_only_if_enabled():
    quota = build.quota("consumer_byte_rate", 8.0, user="alice")
    lines, image = written(EMPTY, build.scram("alice"), quota)
    assert lines == [
        f"create /config/users/alice {config(consumer_byte_rate=8)}",
        config_note("users/alice"),
    ]
    assert b"stored" not in b"".join(z.data or b"" for z in render(image, CLUSTER_ID).values())
    lines, _ = written(EMPTY, build.scram("alice"), secrets=True)
    assert lines == [
        f"create /config/users/alice {config(**{'SCRAM-SHA-256': SCRAM_TEXT})}",
        config_note("users/alice"),
    ]
    tree = render(image, CLUSTER_ID, WITH_SECRETS)
    assert tree["/config/users/alice"].secret


def test_foreign_keys_are_preserved():
    """A tool wrote a credential next to quotas, and credentials are not mirrored."""
    both = config(consumer_byte_rate=1, **{"SCRAM-SHA-256": SCRAM_TEXT}).encode()
    found = {"/config/users/alice": FoundZnode(both, version=7)}

    def resolved(*records):
        _, image = build.replay(EMPTY, *records)
        operations = reconcile(found, image, CLUSTER_ID, 1)
        mine = [o for o in operations if o.path == "/config/users/alice"]
        return [resolve(o, found[o.path]) for o in mine]

    (changed,) = resolved(build.quota("consumer_byte_rate", 8.0, user="alice"))
    assert (changed.kind.value, changed.version) == ("set", 7)
    assert changed.data.decode() == config(**{"SCRAM-SHA-256": SCRAM_TEXT}, consumer_byte_rate=8)
    (left,) = resolved()
    assert (left.kind.value, left.data.decode()) == (
        "set",
        config(**{"SCRAM-SHA-256": SCRAM_TEXT}),
    )
    # A znode with only foreign keys, or none, may stay.
    for data in (config(**{"SCRAM-SHA-256": SCRAM_TEXT}), config()):
        found = {"/config/users/alice": FoundZnode(data.encode())}
        assert resolved() == []
    found = {"/config/users/alice": FoundZnode(b"garbage")}
    assert [o.kind.value for o in resolved()] == ["delete"]


def test_acls_are_grouped_by_resource_with_notes():
    lines, image = written(
        EMPTY,
        build.acl(1, "orders"),
        build.acl(
            2, "orders", principal="User:bob", host="10.0.0.1", operation=4, permission_type=2
        ),
        build.acl(3, "tx-", resource_type=5, pattern_type=4, operation=2),
        build.acl(4, "kafka-cluster", resource_type=4, operation=11),
        build.acl(5, "abc", resource_type=6, operation=8),
        build.acl(6, "not/a/znode"),
    )
    alice = '{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"%s"}'
    bob = '{"principal":"User:bob","permissionType":"Deny","host":"10.0.0.1","operation":"Write"}'
    assert lines == [
        f'create /kafka-acl/Topic/orders {{"acls":[{alice % "Read"},{bob}],"version":1}}',
        "create /kafka-acl-changes/acl_changes_ TOPIC:orders",
        f'create /kafka-acl-extended/prefixed/TransactionalId/tx- {{"acls":[{alice % "All"}],"version":1}}',
        "create /kafka-acl-extended-changes/acl_changes_ "
        '{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"tx-","patternType":"PREFIXED"}',
        f'create /kafka-acl/Cluster/kafka-cluster {{"acls":[{alice % "AlterConfigs"}],"version":1}}',
        "create /kafka-acl-changes/acl_changes_ CLUSTER:kafka-cluster",
        f'create /kafka-acl/DelegationToken/abc {{"acls":[{alice % "Describe"}],"version":1}}',
        "create /kafka-acl-changes/acl_changes_ DELEGATION_TOKEN:abc",
    ]
    lines, _ = written(image, build.no_acl(1), build.no_acl(3))
    assert lines == [
        f'set /kafka-acl/Topic/orders {{"acls":[{bob}],"version":1}}',
        "create /kafka-acl-changes/acl_changes_ TOPIC:orders",
        "delete /kafka-acl-extended/prefixed/TransactionalId/tx-",
        "create /kafka-acl-extended-changes/acl_changes_ "
        '{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"tx-","patternType":"PREFIXED"}',
    ]


def test_order_of_acls_in_znode_is_irrelevant():
    _, image = build.replay(EMPTY, build.acl(1, "t"), build.acl(2, "t", operation=4))
    tree = render(image, CLUSTER_ID)
    data = tree["/kafka-acl/Topic/t"].data.decode()
    first, second = data[len('{"acls":[') : -len('],"version":1}')].split("},{")
    turned = f'{{"acls":[{{{second},{first}}}],"version":1}}'
    found = {path: FoundZnode(znode.data) for path, znode in tree.items()}
    found["/kafka-acl/Topic/t"] = FoundZnode(turned.encode())
    assert reconcile(found, image, CLUSTER_ID, 1) == []


TOKEN = (
    '{"issueTimestamp":1795221036686,"renewers":["User%3Abob"],"tokenRequester":"User%3Aadmin",'
    '"tokenId":"tpKY","owner":"User%3Aadmin","expiryTimestamp":1795307436686,'
    '"maxTimestamp":1795825836686,"version":3}'
)


def test_tokens_are_mirrored_only_if_enabled():
    lines, image = written(EMPTY, build.token("tpKY"))
    assert lines == []
    lines, _ = written(EMPTY, build.token("tpKY"), secrets=True)
    note = "create /delegation_token/token_changes/token_change_ tpKY"
    assert lines == [f"create /delegation_token/tokens/tpKY {TOKEN}", note]
    assert render(image, CLUSTER_ID, WITH_SECRETS)["/delegation_token/tokens/tpKY"].secret
    lines, _ = written(image, build.no_token("tpKY"), secrets=True)
    assert lines == ["delete /delegation_token/tokens/tpKY", note]
    # Credentials are not enabled: existing ones are not changed.
    found = {"/delegation_token/tokens/old": FoundZnode(TOKEN.encode())}
    assert all("/old" not in o.path for o in reconcile(found, image, CLUSTER_ID, 1))

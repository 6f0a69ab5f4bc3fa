"""The rights that each command about share groups needs (docs/share_groups.md): with all it succeeds, and without one
it is refused. Each case has its own user, so a late change of ACLs cannot decide it.
"""

import itertools

import pytest

from tests.cluster.login_node import LoginNode
from tests.cluster.processes import until
from trimaran.cli.app import run
from trimaran.client import changes
from trimaran.client.idempotent_producer import IdempotentProducer
from trimaran.errors.user_error import Exit
from trimaran.local.layout import FreePorts
from trimaran.wire.blocking import BlockingClient

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # the listener INTERNAL has no login
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "group.share.assignment.interval.ms": "0",
}
COMMANDS = {
    "consume orders -g GROUP -n 1": ("read group/GROUP", "read topic/orders"),
    "groups describe GROUP": ("describe group/GROUP",),
    "groups reset-offsets GROUP --to start -t orders --execute": (
        "read group/GROUP",
        "read topic/orders",
    ),
    "groups delete-offsets GROUP -t orders": ("delete group/GROUP", "read topic/orders"),
    "groups delete GROUP": ("delete group/GROUP",),
    "configs get group/GROUP": ("describe-configs group/GROUP",),
    "configs set group/GROUP share.isolation.level=read_committed": ("alter-configs group/GROUP",),
}
users = itertools.count()


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with FreePorts() as ports:
        node = LoginNode(tmp_path_factory.mktemp("rights"), ports, SETTINGS)
        with node.running(), BlockingClient(node.at("INTERNAL")) as client:
            changes.create_topic(client, "orders", partitions=1)
            IdempotentProducer(client, "orders").send(0, [(None, b"order")] * 9)
            yield node


@pytest.fixture
def asked(node, capsys, monkeypatch):
    """Returns a function that runs a command as a user, None for the operator: its exit code and output."""
    monkeypatch.setattr("trimaran.cli.app._end_like_ctrl_c", lambda: None)  # this process continues

    def ask(words, user=None):
        where = ["-b", node.at("INTERNAL")]
        if user is not None:
            file = node.dir / "user.properties"
            settings = "".join(f"{k}={v}\n" for k, v in node.properties("unsecured").items())
            file.write_text(settings.replace('sub="alice"', f'sub="{user}"'))
            where = ["-b", node.at("DEV"), "--command-config", str(file)]
        with pytest.raises(SystemExit) as ended:
            run([*words.split(), *where])
        return int(ended.value.code or 0), capsys.readouterr().err

    return ask


def user_with(asked, rights):
    name = f"user-{next(users)}"
    for right in rights:
        code, said = asked(f"acls add User:{name} {right}")
        assert code == 0, said
    return name


@pytest.mark.parametrize("command", COMMANDS)
def test_each_right_of_a_command_is_needed(asked, command):
    group = f"g{list(COMMANDS).index(command)}"
    words = command.replace("GROUP", group)
    rights = [right.replace("GROUP", group) for right in COMMANDS[command]]
    asked(f"groups reset-offsets {group} --type share --to start -t orders --execute")
    for missing in rights:
        user = user_with(asked, [right for right in rights if right != missing])
        code, said = asked(words, user)
        assert (code, "AUTHORIZATION_FAILED" in said) == (Exit.REFUSED, True), (missing, said)
    user = user_with(asked, rights)
    until(lambda: asked(words, user)[0] == 0, words)

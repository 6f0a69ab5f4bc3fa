"""The metadata shell: Kafka's commands over the tree, and other offsets."""

import io

import pytest

from tests.trimaran.test_metadata_state import node
from trimaran.cli import metadata_shell as command
from trimaran.cli.metadata_state import load_state
from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect.metadata.shell import HELP, Leave, MetadataShell, ShellError


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return node(tmp_path_factory.mktemp("shell"), 1)


@pytest.fixture
def session(directory):
    def load(at):
        return load_state(directory, None, None if at == "end" else int(at))

    return MetadataShell(load)


def answers(session, *lines):
    return [text for line in lines for text in session.run(line)]


def test_shell_walks_through_the_tree(session):
    assert answers(session, "pwd", "ls") == ["/", "image"]
    assert answers(
        session, "cd /image/topics", "ls byName", "cd byName/orders", "pwd", "cat name"
    ) == [
        "orders",
        "/image/topics/byName/orders",
        "orders",
    ]
    assert answers(session, "cd ../..", "pwd", "cd", "pwd") == ["/image/topics", "/"]


def test_patterns_find_more_than_one(session):
    assert answers(session, "ls /image/topics/*") == [
        "/image/topics/byId:",
        "AAAAAAAAAAAAAAAAAAAACQ",
        "/image/topics/byName:",
        "orders",
    ]
    assert answers(session, "find /image retention*") == [
        "/image/configs/TOPIC:orders/retention.ms"
    ]
    assert answers(session, "cat '/image/configs/TOPIC:*/retention.ms'  # of all") == ["1"]


def test_tree_depth_is_limited(session):
    assert answers(session, "tree /image/topics/byName 2") == [
        "/image/topics/byName/",
        "  orders/",
        "    0: " + answers(session, "cat /image/topics/byName/orders/0")[0],
        "    id: AAAAAAAAAAAAAAAAAAAACQ",
        "    name: orders",
    ]
    assert answers(session, "tree /image/topics 1") == ["/image/topics/", "  byId/", "  byName/"]
    assert "  configs/" in answers(session, "tree /image")


def test_each_offset_has_its_own_tree(session):
    assert answers(session, "at", "cd /image/configs/TOPIC:orders") == ["offset 5, epoch 2"]
    assert answers(session, "at 2", "pwd", "ls /image/configs") == ["offset 2, epoch 1", "/"]
    assert answers(session, "at end", "ls /image/configs") == ["offset 5, epoch 2", "TOPIC:orders"]


@pytest.mark.parametrize(
    "line",
    [
        "rm /image",
        "ls /nowhere",
        "cd /image/features/metadataVersion",
        "cd /image/topics/*",
        "cd a b",
        "cat",
        "cat /image",
        "find . a b",
        "tree . many",
        "ls 'open",
    ],
)
def test_impossible_command_is_explained(session, line):
    with pytest.raises(ShellError):
        answers(session, line)


def test_tab_completes_commands_and_paths(session):
    assert session.completions("c", "c") == ["cat ", "cd "]
    assert session.completions("ls /image/to", "/image/to") == ["/image/topics/"]
    answers(session, "cd /image/topics/byName/orders")
    assert session.completions("cat na", "na") == ["name "]
    assert session.completions("cat nothing/", "nothing/") == []


def test_help_names_every_command_and_exit_leaves(session):
    assert [text.split()[0] for text in answers(session, "help")] == [
        key.split()[0] for key in HELP
    ]
    assert answers(session, "", "# a comment") == []
    with pytest.raises(Leave):
        answers(session, "exit")


def test_stdin_commands_continue_after_a_wrong_one(directory, monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.stdin", io.StringIO("cd /image\nnonsense\nat 99\nat x\npwd\nexit\npwd\n")
    )
    assert command.shell(path=directory) == Exit.NO
    out, err = capsys.readouterr()
    assert out == "/image\n"
    assert [line.split(":")[0] for line in err.splitlines()] == [
        "nonsense",
        f"{directory} has no offset 99",
        "at",
    ]


def test_single_command_may_be_an_argument(directory, capsys):
    assert command.shell("ls", "/image/topics/byName/*", path=directory, at=2) == Exit.OK
    assert command.shell("at", path=directory, as_of="@2500") == Exit.OK
    assert capsys.readouterr().out == "0\nid\nname\noffset 2, epoch 1\n"
    with pytest.raises(UserError, match="cannot be combined"):
        command.shell("at", path=directory, at=1, as_of="@2500")


def test_tree_command_prints_paths(directory, capsys):
    assert command.tree("/image/topics", levels=0, path=directory) == Exit.OK
    assert command.tree("/nothing", path=directory) == Exit.NO
    assert capsys.readouterr().out == "/image/topics/\n"

"""The commands of the metadata shell: `ls`, `cd`, `cat`, `find`, `tree` over the tree of the state, and `at` for
another offset. Modelled on Apache Kafka's metadata shell, which has no `at`. Only `load` does I/O.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from trimaran.inspect.metadata.tree import Directory, Node, image_tree, lookup, walk

if TYPE_CHECKING:
    from trimaran.quorum.metadata.replay import MetadataState

# Argument of `at`: an offset, a time with @ before it, or `end`.
Load: TypeAlias = "Callable[[str], MetadataState]"
END = "end"
HELP = MappingProxyType(
    {
        "ls [PATH…]": "list a directory; * and ? are wildcards",
        "cd [PATH]": "go to a directory, or back to the root",
        "pwd": "print the current directory",
        "cat PATH…": "print files",
        "find [PATH] [NAME]": "list everything below a path; with NAME, what has that name (*, ?)",
        "tree [PATH] [LEVELS]": "show everything below a path with file contents, up to LEVELS deep",
        "at [OFFSET|@TIME|end]": "go to the state after that record or at that time; alone: show which it is",
        "help": "print this help",
        "exit": "leave the shell, as Ctrl-D",
    }
)


class ShellError(Exception):
    """The command failed; the text gives the reason."""


class Leave(Exception):
    """The user typed `exit`."""


class MetadataShell:
    """A session: its current directory in the tree, and the offset of the tree. `load` may raise UserError."""

    def __init__(self, load: Load, at: str = END) -> None:
        self._load = load
        self.directory = "/"
        self._go_to(at)
        self._commands: Mapping[str, Callable[[list[str]], Iterator[str]]] = {
            "ls": self._ls,
            "cd": self._cd,
            "pwd": self._pwd,
            "cat": self._cat,
            "find": self._find,
            "tree": self._tree_of,
            "at": self._at,
            "help": self._help,
            "exit": self._exit,
            "quit": self._exit,
        }

    def run(self, line: str) -> Iterator[str]:
        """Runs a command and yields the lines of its output.

        Raises:
            ShellError: the command is unknown, or failed. Leave: the user ended the session.
        """
        words = _split(line)
        if words:
            name, *arguments = words
            command = self._commands.get(name)
            if command is None:
                raise ShellError(f"{name}: no such command; help lists them")
            yield from command(arguments)

    def completions(self, line: str, word: str) -> list[str]:
        """Returns the completions of the last word of a line."""
        if line.strip() == word:
            return sorted(f"{name} " for name in self._commands if name.startswith(word))
        before, slash, start = word.rpartition("/")
        found = lookup(self._tree, self._path(before + slash))
        return [
            before + slash + name + ("/" if isinstance(make(), Directory) else " ")
            for _, node in found
            if isinstance(node, Directory)
            for name, make in sorted(node.children.items())
            if name.startswith(start)
        ]

    # --- the commands

    def _ls(self, words: list[str]) -> Iterator[str]:
        found = [item for word in words or ["."] for item in self._found("ls", word)]
        for path, node in found:
            if not isinstance(node, Directory):
                yield path
                continue
            if len(found) > 1:
                yield f"{path}:"
            yield from sorted(node.children)

    def _cd(self, words: list[str]) -> Iterator[str]:
        ((path, node), *more) = self._found("cd", _only("cd", words, "/"))
        if more or not isinstance(node, Directory):
            raise ShellError(f"cd: {path}: {'more than one match' if more else 'not a directory'}")
        self.directory = path
        return iter(())

    def _pwd(self, _words: list[str]) -> Iterator[str]:
        yield self.directory

    def _cat(self, words: list[str]) -> Iterator[str]:
        if not words:
            raise ShellError("cat: which file?")
        for word in words:
            for path, node in self._found("cat", word):
                if isinstance(node, Directory):
                    raise ShellError(f"cat: {path}: is a directory")
                yield node

    def _find(self, words: list[str]) -> Iterator[str]:
        where, name = _two("find", words, ".", "*")
        for path, node in self._found("find", where):
            for below, _ in walk(path, node):
                if fnmatchcase(posixpath.basename(below), name):
                    yield below

    def _tree_of(self, words: list[str]) -> Iterator[str]:
        where, levels = _two("tree", words, ".", "")
        if levels and not levels.isdecimal():
            raise ShellError(f"tree: {levels} is not a number of levels")
        for path, node in self._found("tree", where):
            yield from tree_lines(path, node, int(levels) if levels else None)

    def _at(self, words: list[str]) -> Iterator[str]:
        if words:
            self._go_to(_only("at", words, END))
        yield f"offset {self.offset}, epoch {self._epoch}"

    def _help(self, _words: list[str]) -> Iterator[str]:
        width = max(map(len, HELP))
        for usage, text in HELP.items():
            yield f"{usage:<{width}}  {text}"

    def _exit(self, _words: list[str]) -> Iterator[str]:
        raise Leave

    # --- the tree

    def _go_to(self, at: str) -> None:
        state = self._load(at)
        provenance = state.image.provenance
        self.offset, self._epoch = provenance.offset, provenance.epoch
        self._tree = image_tree(state.image)
        if not lookup(
            self._tree, self.directory
        ):  # the directory did not exist yet at that offset, or was deleted
            self.directory = "/"

    def _found(self, command: str, word: str) -> list[tuple[str, Node]]:
        found = lookup(self._tree, self._path(word))
        if not found:
            raise ShellError(f"{command}: {word}: no such file or directory")
        return found

    def _path(self, word: str) -> str:
        return posixpath.normpath(posixpath.join(self.directory, word))


def tree_lines(path: str, node: Node, levels: int | None = None, indent: str = "") -> Iterator[str]:
    """Yields a node and everything below it, `levels` deep (None: all), indented by two blanks per level; files with
    their texts.
    """
    name = path if not indent else posixpath.basename(path)
    if not isinstance(node, Directory):
        yield f"{indent}{name}: {node}"
        return
    yield f"{indent}{name}{'' if name.endswith('/') else '/'}"
    if levels == 0:
        return
    for child in sorted(node.children):
        below = None if levels is None else levels - 1
        yield from tree_lines(
            f"{path.rstrip('/')}/{child}", node.children[child](), below, indent + "  "
        )


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:
        raise ShellError(f"{error}: quotes must be closed") from None


def _only(command: str, words: list[str], default: str) -> str:
    if len(words) > 1:
        raise ShellError(f"{command}: one word at most")
    return words[0] if words else default


def _two(command: str, words: list[str], first: str, second: str) -> tuple[str, str]:
    if len(words) > 2:
        raise ShellError(f"{command}: two words at most")
    one, other = [*words, *(first, second)[len(words) :]]
    return one, other

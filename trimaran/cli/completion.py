"""`generate completion bash|zsh|fish`: nouns, verbs and options of this version; topics, groups and brokers of the
cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from trimaran.cli.app import build
from trimaran.cli.commands import COMMANDS

Shell = Literal["bash", "zsh", "fish"]
# The names that complete the first word after a command, and the value of an option.
ARGUMENTS: Mapping[str, str] = {
    "topics list": "topics",
    "topics describe": "topics",
    "topics alter": "topics",
    "topics delete": "topics",
    "consume": "topics",
    "produce": "topics",
    "bench produce": "topics",
    "bench consume": "topics",
    "partitions elect-leader": "topics",
    "records delete": "topics",
    "groups list": "groups",
    "groups describe": "groups",
    "groups lag": "groups",
    "groups delete": "groups",
    "groups reset-offsets": "groups",
    "groups delete-offsets": "groups",
    "brokers describe": "brokers",
}
AFTER_OPTIONS: Mapping[str, str] = {
    "--topic": "topics",
    "-t": "topics",
    "--broker": "brokers",
    "--share-group": "groups",
}
FORMATS = "table wide json jsonl yaml kafka"


def completion(shell: Shell) -> None:
    """Prints a script that completes commands, options, and names of topics, groups and brokers.

    To try it in the current shell: `source <(trimaran generate completion bash)`; in fish: `trimaran generate
    completion fish | source`. Names come from the cluster that the command line names, if it answers within 150 ms.

    Args:
        shell: bash, zsh or fish.
    """
    print(fish() if shell == "fish" else bash() if shell == "bash" else zsh())


def _words() -> dict[str, list[str]]:
    """Returns the words that may follow each beginning of a command line: nouns and verbs."""
    found: dict[str, set[str]] = {}
    for words, _, _ in COMMANDS:
        for index, word in enumerate(words):
            found.setdefault(" ".join(words[:index]), set()).add(word)
    return {before: sorted(after) for before, after in sorted(found.items())}


def options_of_commands() -> Iterator[tuple[str, list[str]]]:
    """Returns the long options of each command."""
    app = build()
    for words, _, _ in COMMANDS:
        command = app
        for word in words:
            command = command[word]
        arguments = command.assemble_argument_collection()
        names = {name for argument in arguments for name in argument.names if name.startswith("--")}
        yield " ".join(words), sorted(names | {"--help"})


def bash() -> str:
    """Returns a function for `complete -F`."""
    words = "\n".join(
        f'    "{before}") words="{" ".join(after)}" ;;' for before, after in _words().items()
    )
    options = "\n".join(
        f'    "{command}") words="{" ".join(names)}" ;;' for command, names in options_of_commands()
    )
    arguments = "\n".join(f'    "{command}") kind={kind} ;;' for command, kind in ARGUMENTS.items())
    after = "\n".join(f"    {option}) kind={kind} ;;" for option, kind in AFTER_OPTIONS.items())
    return f"""# bash completion of trimaran
_trimaran() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  local command="" kind="" words="" word index
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="${{COMP_WORDS[index]}}"
    [[ "$word" == -* ]] && break
    words="$(_trimaran_words "$command")"
    [[ -z "$words" ]] && break
    [[ " $words " == *" $word "* ]] || return
    command="${{command:+$command }}$word"
  done
  words=""
  case "$previous" in
{after}
    -o|--output) COMPREPLY=($(compgen -W "{FORMATS}" -- "$current")); return ;;
  esac
  if [[ -z "$kind" && "$current" == -* ]]; then
    words="$(_trimaran_options "$command")"
  elif [[ -z "$kind" ]]; then
    words="$(_trimaran_words "$command")"
    if [[ -z "$words" ]]; then
      case "$command" in
{arguments}
      esac
    fi
  fi
  if [[ -n "$kind" ]]; then
    words="$("${{COMP_WORDS[0]}}" complete-names "$kind" "${{COMP_WORDS[@]:1}}" 2>/dev/null)"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
_trimaran_words() {{
  local words=""
  case "$1" in
{words}
  esac
  printf %s "$words"
}}
_trimaran_options() {{
  local words=""
  case "$1" in
{options}
  esac
  printf %s "$words"
}}
complete -o default -F _trimaran trimaran"""


def zsh() -> str:
    """Returns the script for zsh, which runs functions of bash."""
    return f"autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n{bash()}"


def fish() -> str:
    """Returns the script for fish, a line for each word and option."""
    lines = ["# fish completion of trimaran", "complete -c trimaran -f", *_FISH.splitlines()]
    for before, after in _words().items():
        lines.append(f"complete -c trimaran -n '__trimaran_at \"{before}\"' -a '{' '.join(after)}'")
    for command, kind in ARGUMENTS.items():
        lines.append(
            f"complete -c trimaran -n '__trimaran_in \"{command}\"' -a '(__trimaran_names {kind})'"
        )
    for command, names in options_of_commands():
        options = " ".join(f"-l {name.removeprefix('--')}" for name in names)
        lines.append(f"complete -c trimaran -n '__trimaran_in \"{command}\"' {options}")
    for option, kind in AFTER_OPTIONS.items():
        name = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
        lines.append(f"complete -c trimaran {name} -x -a '(__trimaran_names {kind})'")
    lines.append(f"complete -c trimaran -s o -l output -x -a '{FORMATS}'")
    return "\n".join(lines)


_FISH = """function __trimaran_before
  set -l words (commandline -opc)
  string match -v -- '-*' $words[2..-1]
end
function __trimaran_at
  test "$argv[1]" = (string join ' ' (__trimaran_before))
end
function __trimaran_in
  string match -q -- "$argv[1]*" (string join ' ' (__trimaran_before))
end
function __trimaran_names
  set -l words (commandline -opc)
  $words[1] complete-names $argv[1] $words[2..-1] 2>/dev/null
end"""

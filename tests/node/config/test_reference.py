"""docs/configuration.md matches the key tables (`REWRITE_TRANSCRIPTS=1` writes it)."""

import textwrap
from pathlib import Path

from tests import datadriven
from tests.node.config import kafka_dynamic
from trimaran.node.config.client_metrics_keys import CLIENT_METRICS_CONFIGS
from trimaran.node.config.dynamic_keys import NOT_WHILE_RUNNING, dynamic_key
from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.node.config.server_keys import (
    DEV_MODE,
    DYNAMIC_ONLY,
    LISTENER_CONFIGS,
    SERVER_CONFIGS,
)
from trimaran.node.config.topic_keys import TOPIC_CONFIGS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"
HEAD = """# Configuration

Every key with its type, its default, how it may change, and what it does.
This page is written from the tables in `node/config/`:
`REWRITE_TRANSCRIPTS=1 pytest tests/node/config/test_reference.py`.

A node takes the value of `--override`, else of the environment, else of its file, else the default.
In the environment `log.dirs` is `KAFKA_LOG_DIRS`. There `_` is written `__`, and `-` is written `___`.
An unknown key is a warning in the log. DescribeConfigs names it, without its value.
An invalid value stops the node with an error that shows the valid values.

```sh
trimaran config init --roles broker --node-id 11 --controllers ctrl-1:9093 > broker.properties
trimaran config check -c broker.properties            # what it would refuse or warn about; 1 if it would not start
trimaran config effective -c broker.properties        # every value that was set, and where: file:line, environment, …
trimaran config diff broker.properties other.properties
trimaran config explain retention.ms                  # one key of this page
```

`check` reads certificates, too. It does not check directories, addresses or other nodes. Secrets are never shown.

- *read-only*: read when the node starts.
- *per-broker*: `trimaran configs set broker/ID` may alter it for one broker while it runs.
- *cluster-wide*: it may be altered for all brokers (`trimaran configs set broker`) or for one.
  [What may be altered](#what-may-be-altered-while-a-node-runs) lists all keys that can be altered in Apache Kafka.
"""
DEV = """
`trimaran.dev.mode=true` sets these keys if nothing else sets them:
"""
SECTIONS = {
    "Keys of topics": (
        "A broker's key is the default of its topics; `trimaran configs set` sets one topic's.",
        TOPIC_CONFIGS,
    ),
    "Keys of groups": ("Set by `trimaran configs set` for a group.", GROUP_CONFIGS),
    "Keys of client metrics": ("Set for a subscription (KIP-714).", CLIENT_METRICS_CONFIGS),
    "Keys that are only altered": ("They are in no file.", DYNAMIC_ONLY),
}


def item(key, scope=True):
    default = "none" if key.default is None else f"`{key.default_text}`" if key.default_text else ""
    facts = [key.kind, "required" if key.required else f"default {default or 'empty'}"]
    facts += [key.scope] * scope
    head = _wrapped(f"- **{key.name}** ({', '.join(facts)}).")
    return f"{head}\n{_wrapped('  ' + key.documentation)}"


def _wrapped(text):
    return textwrap.fill(
        text,
        width=110,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def section(title, text, keys, *, scope=True):
    items = [item(key, scope) for key in sorted(keys, key=lambda key: key.name)]
    return "\n".join(["", f"## {title}", "", text, "", *items, ""])


ALTERED = """
All keys that can be altered in Apache Kafka 4.4.
Keys without effect are accepted, since Kafka's tools and clients set some; DescribeConfigs shows the reason, too.
An unknown name is stored, as in Kafka, for plug-ins. The log warns about it, and its value is never shown.
*of listeners*: also for one listener, as `listener.name.LISTENER.KEY`. Keystores, truststores and the rest of TLS
are altered for one listener only.
"""


def altered_row(name):
    key = dynamic_key(name)
    of_listener = dynamic_key(f"listener.name.x.{name}")
    of = "one broker" if name in kafka_dynamic.PER_BROKER else "all, or one broker"
    if key is None and of_listener is not None and not of_listener.only_default:
        return name, "one broker, of listeners only", "takes effect for new connections"
    if key is None:
        return name, of, f"refused: {NOT_WHILE_RUNNING[name]}"
    if of_listener is not None:
        of += ", of listeners"
    if why := key.no_effect:
        return name, of, f"no effect: {why}"
    if why := key.no_effect_while_running:
        return name, of, f"no effect before a restart: {why}"
    return name, of, "takes effect immediately"


def altered_section():
    rows = (altered_row(name) for name in kafka_dynamic.ALL)
    items = [_wrapped(f"- **{name}** ({of}): {what}.") for name, of, what in rows]
    return "\n".join(["## What may be altered while a node runs", ALTERED, *items, ""])


def page():
    keys = SERVER_CONFIGS.values()
    acting = [key for key in keys if not key.no_effect and not key.only_default]
    wrapped = "\n".join(f"- `{name}`" for name in LISTENER_CONFIGS)
    dev = "\n".join(f"- `{key}={value}`" for key, value in DEV_MODE.items())
    parts = [HEAD, section("Keys of nodes", "All keys that have an effect.", acting), DEV, dev, ""]
    of_listeners = "`listener.name.LISTENER.` before one of these sets it for one listener:"
    of_mechanism = (
        "As in Kafka, `oauthbearer.` may be between the listener and a key `sasl.oauthbearer.…`."
    )
    parts += ["\n## Keys of listeners\n", of_listeners, "", wrapped, "", of_mechanism, ""]
    for title, (text, table) in SECTIONS.items():
        parts.append(section(title, text, table.values(), scope=False))
    only = [key for key in keys if key.only_default]
    idle = [key for key in keys if key.no_effect]
    parts.append(
        section(
            "Keys with one value", "Another value is refused, since it would have no effect.", only
        )
    )
    parts.append("\n" + altered_section())
    parts.append(
        section(
            "Keys without effect",
            "Apache Kafka's, accepted so that its files work. A node that finds one warns.",
            idle,
        )
    )
    return "\n".join(line.rstrip() for line in "\n".join(parts).splitlines()) + "\n"


def test_page_matches_the_tables():
    if datadriven.REWRITE:
        PAGE.write_text(page())
    assert PAGE.read_text() == page()


def test_every_key_is_documented():
    tables = (SERVER_CONFIGS, TOPIC_CONFIGS, GROUP_CONFIGS, CLIENT_METRICS_CONFIGS, DYNAMIC_ONLY)
    keys = [key for table in tables for key in table.values()]
    assert [key.name for key in keys if not key.doc.endswith(".")] == []

"""A Kafka with faults on demand for tests in any language: `python -m trimaran.fault_control`.

Starts one node, controller and broker, in this process, or with `--brokers` a cluster of processes behind a proxy. When
clients are served, it prints one line of JSON: `bootstrap` for clients, `control` for requests over HTTP, their
`token`, and the file that has the token. It ends on SIGTERM or Ctrl-C, with `--with-parent` also when its standard
input is closed. The data is deleted at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from trimaran.console.guards import App
from trimaran.errors.node import explain
from trimaran.errors.user_error import Exit
from trimaran.fault_control.listening import open_control
from trimaran.fault_control.started import controlled_cluster, controlled_node
from trimaran.faults import proxy_process
from trimaran.settings.properties import from_overrides
from trimaran.testing.cluster import KafkaCluster
from trimaran.testing.embedded import EmbeddedKafka
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import socket

    from trimaran.console import http_server
    from trimaran.fault_control import serving
else:
    http_server = imported_later("trimaran.console.http_server")
    serving = imported_later("trimaran.fault_control.serving")


def main(words: Sequence[str] | None = None) -> int:
    """Serves until it is stopped; returns the exit code."""
    options = _parser().parse_args(words)
    try:
        _serve(options)
    except Exception as error:
        told = explain(error)
        if told is None:
            raise
        sys.stderr.write(f"{told}\n")
        return told.exit_code
    return Exit.OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trimaran.fault_control",
        description="A Kafka with faults on demand, for tests in any language.",
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="the address of the control; port 0, the default, takes a free one",
    )
    parser.add_argument(
        "--brokers",
        type=int,
        default=0,
        metavar="N",
        help="start a cluster of processes, whose nodes and links can be broken, behind a proxy",
    )
    parser.add_argument(
        "--controllers", type=int, default=1, metavar="N", help="controllers of that cluster; 1"
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a key of server.properties; may be repeated",
    )
    parser.add_argument(
        "--plan", metavar="PLAN", help="a plan to begin with: a file, or the name of a ready plan"
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="where the token is written; by default in a directory of this user",
    )
    parser.add_argument(
        "--with-parent", action="store_true", help="end when standard input is closed"
    )
    return parser


def _serve(options: argparse.Namespace) -> None:
    settings = {key: setting.value for key, setting in from_overrides(options.override).items()}
    with (
        open_control(options.listen, options.token_file) as control,
        _kafka(options, settings) as kafka,
    ):
        if options.plan is not None:
            kafka.faults.load(options.plan)
        app = serving.application(
            controlled_cluster(kafka)
            if isinstance(kafka, KafkaCluster)
            else controlled_node(kafka),
            control.token,
        )
        ready = {
            "bootstrap": kafka.bootstrap,
            "control": control.url,
            "token": control.token,
            "token_file": str(control.token_file),
        }
        trio.run(_serve_http, app, control.listener, json.dumps(ready), options.with_parent)


def _kafka(
    options: argparse.Namespace, settings: Mapping[str, str]
) -> EmbeddedKafka | KafkaCluster:
    if not options.brokers:
        return EmbeddedKafka(settings)
    return KafkaCluster(
        brokers=options.brokers, controllers=options.controllers, faults=True, settings=settings
    )


async def _serve_http(app: App, listener: socket.socket, ready: str, with_parent: bool) -> None:
    async def wait_for_stop() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_wait_for_signal, nursery.cancel_scope)
            if with_parent:
                nursery.start_soon(_wait_for_end_of_input, nursery.cancel_scope)

    def say_ready() -> None:
        sys.stdout.write(f"{ready}\n")
        sys.stdout.flush()

    await http_server.serve_http(app, listener, say_ready, wait_for_stop)


async def _wait_for_signal(scope: trio.CancelScope) -> None:
    await proxy_process.wait_for_signal()
    scope.cancel()


async def _wait_for_end_of_input(scope: trio.CancelScope) -> None:
    await trio.to_thread.run_sync(_read_all_input, abandon_on_cancel=True)
    scope.cancel()


def _read_all_input() -> None:
    """Reads without Python's buffer: an abandoned thread would keep its lock at the end of the process."""
    while os.read(0, 4096):
        pass


if __name__ == "__main__":
    sys.exit(main())

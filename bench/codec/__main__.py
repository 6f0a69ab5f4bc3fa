"""`./dev bench codec [--seconds S] [WORD ...]`: microseconds per message, and the speed-up of ours.

Every peer decodes the same bytes and encodes the result, which must be the same bytes again. A figure is the CPU time
of the best round (including garbage collection in Python, but not in Java, where other threads do it). Rows can be
chosen by words in their names.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench.codec import java, kio_in_python
from bench.codec.cases import Case, cases
from bench.codec.peers import PEERS, best_us, open_codec
from bench.sizes import sized
from trimaran.wire.codec import build

COLUMNS = ("ours", "kio 0.6", "kio 0.5", "kafka-python", "java")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="./dev bench codec", description=__doc__)
    parser.add_argument("words", nargs="*", help="rows whose name holds one of these words")
    parser.add_argument(
        "--seconds", type=float, default=sized(0.5, 0.01), help="time a figure (default 0.5)"
    )
    parser.add_argument(
        "--generated", action="store_true", help="ours as it is where nothing was compiled"
    )
    parser.add_argument("--without-java", action="store_true", help="leave Apache's codec out")
    options = parser.parse_args(arguments)
    if options.generated:
        build.build_decoder = None
    chosen = [c for c in cases() if not options.words or any(w in c.name for w in options.words)]
    measured = measure(chosen, options.seconds)
    for name, peer, wanted in (
        ("kio 0.5", kio_in_python, True),
        ("Apache's codec", java, not options.without_java),
    ):
        reason = peer.why_not() if wanted else "not asked for"
        if reason:
            print(f"bench: {name} is left out, {reason}", file=sys.stderr)
        else:
            measured |= peer.measure(chosen, options.seconds)
    print_table(chosen, measured)


Measured = dict[tuple[str, str, str], float]


def measure(chosen: Sequence[Case], seconds: float) -> Measured:
    """Returns µs by case, direction and peer."""
    found: Measured = {}
    for case in chosen:
        data = case.message.encode(case.version)
        codecs = {peer: open_codec(peer, case, data) for peer in PEERS}
        for direction in ("decode", "encode"):
            actions = {p: getattr(codec, direction) for p, codec in codecs.items() if codec}
            for peer, us in best_us(actions, seconds).items():
                found[case.name, direction, peer] = us
    return found


def print_table(chosen: Sequence[Case], measured: Measured) -> None:
    heads = "".join(f"{peer:>14}" for peer in COLUMNS)
    ratios = "".join(f"{'× ' + peer:>16}" for peer in COLUMNS[1:])
    print(f"{'µs a message':<36}{'':<8}{heads}{ratios}")
    for case in chosen:
        for direction in ("decode", "encode"):
            row = [measured.get((case.name, direction, peer)) for peer in COLUMNS]
            us = "".join(f"{'-' if value is None else f'{value:,.1f}':>14}" for value in row)
            times = "".join(
                f"{'-' if value is None else f'{value / row[0]:.2f}':>16}" for value in row[1:]
            )
            print(f"{case.name:<36}{direction:<8}{us}{times}")


if __name__ == "__main__":
    main()

"""The cost of an authorizer with a thousand ACLs for a broker (`bench.switched`).

`python -m bench.authorization_cost [PAIRS]`. The client is not a super user: an ACL is looked up and found.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

import trio

from bench.crowds import produce_frame
from bench.switched import BROKER, PAIRS, TOPIC, compared, fetch_request, one_node, produce_request
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType

ACLS = 1000
VALUE_BYTES = 100


def authorizer(topic: str = TOPIC) -> Authorizer:
    """Returns an authorizer with a thousand ACLs, of which two let every user write to `topic` and read it."""
    made = Authorizer(["User:admin"])
    made.complete_initial_load()
    others = (f"topic-{number}" for number in range(ACLS - 2))
    wanted = [(topic, Operation.WRITE), (topic, Operation.READ)]
    for name, operation in wanted + [(other, Operation.WRITE) for other in others]:
        to_all = ("User:*", "*", operation, Permission.ALLOW)
        made._index.add(Acl(ResourceType.TOPIC, name, PatternType.LITERAL, *to_all))
    return made


async def measure(root: Path, pairs: int) -> None:
    """Prints the difference for each request."""
    made = authorizer()
    requests = {
        "produce, one batch of 100 records of 100 B, acks=1": produce_request(),
        "produce, one record of 100 B, acks=all": produce_frame(TOPIC, VALUE_BYTES),
        "consume": fetch_request(),
    }
    async with one_node(root) as running:
        context = running.brokers[BROKER].contexts.data

        def switch(is_on: bool) -> None:
            object.__setattr__(context, "authorizer", made if is_on else None)

        for name, request in requests.items():
            found = await compared(running, request, switch, pairs)
            print(f"{name}: an authorizer {found.summary()}", flush=True)


def main(pairs: int) -> None:
    """Prints all figures."""
    with tempfile.TemporaryDirectory() as directory:
        trio.run(partial(measure, Path(directory), pairs))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS)

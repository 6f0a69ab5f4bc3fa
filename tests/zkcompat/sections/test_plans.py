"""All operations for changes of every kind, in full: those of a plan, and those that repair a tree."""

import random
from pathlib import Path

from tests.datadriven import check_transcript
from tests.zkcompat import build
from tests.zkcompat.build import CLUSTER_ID
from tests.zkcompat.model import plan, reconcile
from tests.zkcompat.scenario import next_records
from trimaran.quorum.metadata.image import EMPTY
from trimaran.zkcompat.sections.registry import sections_of
from trimaran.zkcompat.tree.operations import FoundZnode

SECTIONS = sections_of(CLUSTER_ID, secrets=True)


def said(operation):
    marks = [name for name in ("ephemeral", "sequential", "secret") if getattr(operation, name)]
    if operation.version != -1:
        marks.append(f"version {operation.version}")
    if operation.keeps is not None:
        marks.append("keeps others'")
    if operation.about:
        marks.append(f"about {operation.about}")
    words = [operation.kind.value, operation.path, operation.name, *marks]
    data = "" if operation.data is None else f" {operation.data.decode()}"
    return " ".join(words) + data


def test_operations_match_the_transcript():
    """`change SEED COUNT` are random records on top of the image, `damage SEED` is a tree with some faults."""
    image = EMPTY
    expected = []

    def run(step):
        nonlocal image
        seed, *count = map(int, step.source.splitlines()[-1].split()[1:])
        prng = random.Random(seed)
        if step.command == "change":
            delta, image = build.replay(image, *next_records(image, prng, count[0]))
            operations = plan(delta, image, SECTIONS)
        else:
            operations = reconcile(damaged(image, prng), image, CLUSTER_ID, 7, SECTIONS)
        expected.append(operations)
        return "\n".join(map(said, operations))

    check_transcript(Path(__file__).parent / "testdata/plans.txt", run)
    assert len(expected) > 30


def damaged(image, prng):
    """Returns the expected tree with foreign znodes added, some znodes missing and some wrong."""
    found = {}
    for section in SECTIONS:
        for name in section.names(image):
            for path, znode in section.znodes(name, image):
                owner = prng.choice([7, 7, 8, 0]) if znode.ephemeral else prng.choice([0] * 9 + [7])
                found[path] = FoundZnode(znode.data, owner=owner, version=2)
    for path in sorted(found):
        what = prng.random()
        if what < 0.05:
            del found[path]
        elif what < 0.1:
            found[path] = found[path]._replace(data=b"x")
        elif what < 0.13:
            found[path] = found[path]._replace(data=None, refusal="NoAuth")
        elif what < 0.18:
            found[f"{path}/other"] = FoundZnode(b"y")
    return found

"""The entities that are read together, compared with a twin that fills portions one by one, and the reads for each
portion.
"""

import random
from types import SimpleNamespace

import pytest

from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.comparing.tree_parts import (
    LEVELS_MAX,
    TreePart,
    _portions,
    read_entities,
    visit_entities,
    visit_tree,
)
from trimaran.zkcompat.sections.registry import sections_of
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.zookeeper.errors import PathRefusedError


class Sized:
    """A section with numbers as entities, each of that size."""

    directories = ("/d", "/e")

    def __init__(self, sizes):
        self.sizes = sizes

    def names(self, image):
        return list(self.sizes)

    def size(self, name, image):
        return self.sizes.get(name, 1)

    def roots(self, name):
        return [f"/d/{name}", f"/e/{name}"]

    def singles(self, name):
        return [f"/single/{name}"]

    def entity(self, directory, child):
        return child


def twin(sizes):
    """Fills a portion with up to 1,000 znodes and 200 entities; a larger entity gets a portion of its own."""
    portions = [[]]
    for name, size in sizes.items():
        held = sum(sizes[portion] for portion in portions[-1])
        if portions[-1] and (held + size > 1000 or len(portions[-1]) == 200):
            portions.append([])
        portions[-1].append(name)
    return portions if portions[-1] else []


SIZES = [
    [],
    [1],
    [1] * 200,
    [1] * 201,
    [5] * 200,
    [5] * 199 + [6],
    [500, 500, 1],
    [500, 501],
    [999, 1, 1],
    [2000, 1, 2000, 2000, 1],
    [1000],
    [1001, 1],
]


@pytest.mark.parametrize("seed", range(5))
def test_portions_equal_those_of_twin(seed):
    prng = random.Random(seed)
    some = [[prng.choice([0, 1, 7, 300, 999, 1000]) for _ in range(450)] for _ in range(3)]
    for sizes in [*SIZES, *some]:
        named = {str(number): size for number, size in enumerate(sizes)}
        assert list(_portions(Sized(named), named, None)) == twin(named)


class Keeper:
    def __init__(self, children=None):
        self.read = []
        self.children_of = children or {}

    async def read_tree(self, roots, singles, *, levels_max):
        self.read.append((list(roots), list(singles), levels_max))
        return {}

    async def children(self, directory):
        found = self.children_of.get(directory, [])
        if found is None:
            raise PathRefusedError(directory, "NoAuth")
        return found


async def visited(visit, *arguments, **options):
    seen = []

    async def note(piece):
        seen.append(list(piece.names))

    await visit(*arguments, note, **options)
    return seen


async def test_only_singles_of_entities_without_znodes_are_read():
    keeper, section = Keeper(), Sized({"a": 1, "b": 1})
    found = await visited(visit_entities, keeper, section, ["a", "b"], None, standing={"b"})
    assert found == [["a", "b"]]
    singles = ["/single/a", "/single/b"]
    assert keeper.read == [(["/d/b", "/e/b"], singles, LEVELS_MAX)]
    assert LEVELS_MAX == 16
    keeper = Keeper()
    await visited(visit_entities, keeper, section, ["a"], None)
    assert keeper.read == [(["/d/a", "/e/a"], ["/single/a"], 16)]
    keeper = Keeper()
    assert await read_entities(keeper, ["/r"], []) == {}


async def test_tree_visit_covers_found_and_expected_entities():
    quarantine = Quarantine(lambda: 0.0)
    keeper = Keeper({"/d": ["x", "b"], "/e": ["y"]})
    found = await visited(visit_tree, keeper, [Sized({"a": 1, "b": 1})], None, quarantine)
    assert [sorted(names) for names in found] == [["a", "b", "x", "y"]]
    ((roots, _, _),) = keeper.read
    assert sorted(roots) == sorted(f"/{d}/{name}" for d in "de" for name in "bxy")
    assert len(quarantine) == 0


async def test_unreadable_directory_means_reading_all_its_entities():
    quarantine = Quarantine(lambda: 0.0)
    keeper = Keeper({"/d": None, "/e": ["y"]})
    found = await visited(visit_tree, keeper, [Sized({"a": 1})], None, quarantine)
    assert found == [["a"]]
    assert keeper.read[0][0] == ["/d/a", "/e/a"]
    (entry,) = quarantine
    assert (entry.path, entry.action, entry.reason) == ("/d", "read", "NoAuth")


def test_each_entity_of_slice_gets_own_znodes():
    (users,) = [
        section for section in sections_of("c", secrets=True) if section.label == "UserConfigs"
    ]
    paths = ["/config/users/a", "/config/users/a/clients/c", "/config/users/b", "/config/users/z"]
    found = {path: FoundZnode(path.encode()) for path in paths}
    piece = TreePart(users, ["a", "b", "c"], found)
    assert {name: list(part) for name, part in piece.parts()} == {
        "a": paths[:2],
        "b": paths[2:3],
        "c": [],
    }
    standing = sections_of("c")[0]
    (name,) = standing.names(SimpleNamespace())
    single = next(iter(standing.singles(name)))
    piece = TreePart(standing, [name], {single: FoundZnode(b"x")})
    assert {each_part: list(part) for each_part, part in piece.parts()} == {name: [single]}

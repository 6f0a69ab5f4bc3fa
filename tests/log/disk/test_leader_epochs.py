"""Leader epochs compared with a naive twin: one epoch per offset."""

import random
from pathlib import Path

import pytest

from trimaran.log.disk.checkpoints import LEADER_EPOCHS, CheckpointDamaged
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.disk.leader_epochs import LeaderEpochs


def twin_end_offset(epochs, wanted, start):
    """Returns the end of an epoch; `epochs[i]` is the epoch of offset `start + i`."""
    if not epochs or wanted < 0 or wanted > epochs[-1]:
        return -1, -1
    end = next((i for i, epoch in enumerate(epochs) if epoch > wanted), len(epochs))
    return (epochs[end - 1] if end else wanted), start + end


@pytest.mark.parametrize("seed", range(20))
def test_epochs_equal_naive_twin(seed):
    r = random.Random(seed)
    cache, epochs, start, epoch = LeaderEpochs(), [], 0, 0
    for _ in range(60):
        what = r.random()
        if what < 0.7:
            epoch += r.choice([0, 0, 1, 3])
            cache.assign(epoch, start + len(epochs))
            epochs += [epoch] * r.randint(1, 5)
        elif what < 0.85:
            end = r.randint(start, start + len(epochs))
            cache.truncate_from_end(end)
            del epochs[end - start :]
            epoch += 1
        else:
            new = r.randint(start, start + len(epochs))
            if new < start + len(epochs):
                cache.truncate_from_start(new)
                del epochs[: new - start]
                start = new
        for wanted in range(-1, epoch + 2):
            expected = twin_end_offset(epochs, wanted, start)
            assert cache.end_offset_for(wanted, start + len(epochs)) == expected
        for i, known in enumerate(epochs):
            assert cache.epoch_for(start + i) == known
        assert LeaderEpochs.parse(Path("x"), cache.format()).entries() == cache.entries()


def test_contradiction_removes_older_entries():
    cache = LeaderEpochs([(0, 0), (3, 10), (5, 20)])
    cache.assign(4, 15)
    assert cache.entries() == [(0, 0), (3, 10), (4, 15)]
    cache.assign(3, 25)
    assert cache.entries() == [(0, 0), (3, 25)]
    cache.assign(4, 30)
    cache.assign(6, 10)
    assert cache.entries() == [(0, 0), (6, 10)]
    cache.assign(-1, 50)
    assert cache.latest_epoch == 6
    cache.assign(6, 9)
    assert cache.entries() == [(0, 0), (6, 9)]
    for start_offset in (9, 10):
        version = cache.version
        cache.assign(6, start_offset)
        assert (cache.version, cache.entries()) == (version, [(0, 0), (6, 9)])


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"0",
        b"0\n1\n",
        b"0\n1\n1\n",
        b"0\n2\n0 0\n0 5\n",
        b"0\n2\n0 5\n1 5\n",
        b"0\n1\n-2 0\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n0 -1\n",
        b"x\n0\n",
        b"\xff",
    ],
)
def test_damaged_file_is_refused(text):
    with pytest.raises(CheckpointDamaged, match="name"):
        LeaderEpochs.parse(Path("name"), text)


@pytest.mark.parametrize("content", [None, b""])
def test_missing_or_empty_file_has_no_epochs(tmp_path, content):
    if content is not None:
        (tmp_path / LEADER_EPOCHS).write_bytes(content)
    assert LeaderEpochs.read(tmp_path, REAL_FILES) is None


def test_format_is_kafkas():
    assert LeaderEpochs([(0, 0), (1, 3900)]).format().rstrip() == b"0\n2\n0 0\n1 3900"


@pytest.mark.parametrize(
    ("change", "entries", "more"),
    [
        (lambda epochs: epochs.assign(9, 30), [(0, 0), (3, 10), (5, 20), (9, 30)], 1),
        (lambda epochs: epochs.assign(5, 20), [(0, 0), (3, 10), (5, 20)], 0),
        (lambda epochs: epochs.assign(5, 25), [(0, 0), (3, 10), (5, 20)], 0),
        (lambda epochs: epochs.assign(-1, 30), [(0, 0), (3, 10), (5, 20)], 0),
        (lambda epochs: epochs.truncate_from_end(21), [(0, 0), (3, 10), (5, 20)], 0),
        (lambda epochs: epochs.truncate_from_end(20), [(0, 0), (3, 10)], 1),
        (lambda epochs: epochs.truncate_from_end(0), [], 1),
        (lambda epochs: epochs.truncate_from_start(0), [(0, 0), (3, 10), (5, 20)], 0),
        (lambda epochs: epochs.truncate_from_start(9), [(0, 9), (3, 10), (5, 20)], 1),
        (lambda epochs: epochs.truncate_from_start(10), [(3, 10), (5, 20)], 1),
        (lambda epochs: epochs.truncate_from_start(11), [(3, 11), (5, 20)], 1),
        (lambda epochs: epochs.truncate_from_start(99), [(5, 99)], 1),
        (lambda epochs: epochs.clear(), [], 1),
    ],
)
def test_version_counts_each_change(change, entries, more):
    epochs = LeaderEpochs([(0, 0), (3, 10), (5, 20)])
    assert epochs.version == 0
    change(epochs)
    assert (epochs.entries(), epochs.version) == (entries, more)
    assert epochs.latest_epoch == (entries[-1][0] if entries else -1)

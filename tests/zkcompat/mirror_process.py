"""A mirror in a process of its own, with a constant image: `python -m tests.zkcompat.mirror_process CONNECT
STATE_DIR`.
"""

import sys

import trio

from tests.zkcompat import build
from tests.zkcompat.rig import Source, in_step, topics
from trimaran.zkcompat.mirroring.mirror import Mirror
from trimaran.zkcompat.settings import mirror_config
from trimaran.zkcompat.zookeeper.keeper import open_keeper
from trimaran.zkcompat.zookeeper.session import KeeperConfig
from trimaran.zkcompat.zookeeper.session_file import SESSION_FILE

# How long a process may take to start on a busy machine; its session must outlive it.
STARTING_MS = 30_000


async def main(connect: str, state_dir: str) -> None:
    source = Source(build.broker(1), *topics(2))
    config = KeeperConfig(connect, STARTING_MS)
    session_file = trio.Path(state_dir) / SESSION_FILE
    async with (
        open_keeper(config, session_file, keep_session=True) as keeper,
        trio.open_nursery() as nursery,
    ):
        mirror = Mirror(source.feed, keeper, build.CLUSTER_ID, mirror_config({}))
        nursery.start_soon(mirror.run)
        await in_step(mirror, source)
        print("in step", flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])

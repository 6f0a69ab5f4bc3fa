"""Which metadata log a command reads: the one in a path, or the running quorum's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimaran.cli.connect import Controllers
from trimaran.cli.progress import progress
from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect.metadata.live_quorum import LiveSource
from trimaran.inspect.metadata.on_disk import MetadataDirectory
from trimaran.inspect.metadata.source import MetadataSource


@contextmanager
def open_source(path: Path | None, controllers: Controllers) -> Iterator[MetadataSource]:
    """The directory if a path is given, else the quorum of `controllers`."""
    if path is not None:
        if not path.exists():
            raise UserError(
                f"{path} does not exist",
                "a path names a directory or a file with a metadata log",
                "correct the path; or leave it out to ask the running quorum, -B HOST:PORT",
                exit_code=Exit.USAGE,
            )
        with progress(f"reading {path}"):
            yield MetadataDirectory(path)
        return
    with controllers.connected() as client, progress("reading the metadata log"):
        yield LiveSource(client, f"the quorum at {controllers.addresses}")

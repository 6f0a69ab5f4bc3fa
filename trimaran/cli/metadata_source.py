"""The metadata log that a command reads: the log in a path, or the log of the running quorum."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimaran.cli.connect import Controllers
from trimaran.cli.progress import progress
from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect.metadata import live_quorum, on_disk, source


@contextmanager
def open_source(path: Path | None, controllers: Controllers) -> Iterator[source.MetadataSource]:
    """Yields the directory if a path is given, else the quorum of `controllers`."""
    if path is not None:
        if not path.exists():
            raise UserError(
                f"{path} does not exist",
                "a path names a directory or a file with a metadata log",
                "correct the path; or leave it out to ask the running quorum, -B HOST:PORT",
                exit_code=Exit.USAGE,
            )
        with progress(f"reading {path}"):
            yield on_disk.MetadataDirectory(path)
        return
    with controllers.connected() as client, progress("reading the metadata log"):
        yield live_quorum.LiveSource(client, f"the quorum at {controllers.addresses}")

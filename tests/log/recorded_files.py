"""`RecordedFiles`: real calls, each noted as a line, for transcripts of reads and writes in order."""

from __future__ import annotations

from pathlib import Path

from trimaran.log.disk.files import Files, OpenFile


def short(path: Path) -> str:
    """Returns `42.index` for `00000000000000000042.index`."""
    offset, dot, suffix = path.name.partition(".")
    return f"{int(offset)}{dot}{suffix}" if len(offset) == 20 and offset.isdecimal() else path.name


class RecordedFiles(Files):
    """`lines` are the calls since the last report."""

    kernel_syncs = False

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def taken(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> OpenFile:
        is_new = not path.exists()
        file = super().open(path, create=create, write=write)
        self.lines.append(
            f"{'make' if is_new else 'open'} {short(path)}{'' if write else ' to read'}"
        )
        return file

    def pread(self, file: OpenFile, size: int, position: int) -> bytes:
        self.lines.append(f"read {size} bytes of {short(file.path)} at {position}")
        return super().pread(file, size, position)

    def pwrite(self, file: OpenFile, data: bytes | bytearray | memoryview, position: int) -> None:
        self.lines.append(f"write {len(data)} bytes to {short(file.path)} at {position}")
        super().pwrite(file, data, position)

    def truncate(self, file: OpenFile, size: int) -> None:
        self.lines.append(f"cut {short(file.path)} to {size}")
        super().truncate(file, size)

    def preallocate(self, file: OpenFile, size: int) -> None:
        self.lines.append(f"preallocate {size} bytes of {short(file.path)}")
        super().preallocate(file, size)

    def fdatasync(self, file: OpenFile) -> None:
        self.lines.append(f"sync {short(file.path)}")

    def write_out(self, file: OpenFile, start: int, end: int) -> None:
        self.lines.append(f"write out {short(file.path)} from {start} to {end}")

    def fsync_directory(self, path: Path) -> None:
        self.lines.append(f"sync names in {path.name}")

    def rename(self, source: Path, target: Path) -> None:
        self.lines.append(f"rename {short(source)} to {short(target)}")
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        if path.exists():
            self.lines.append(f"remove {short(path)}")
        super().unlink(path)

"""Runs Protobuf's compiler, which converts .proto files to descriptors of their messages.

The compiler runs in a separate process, so it cannot harm this one, and is killed after COMPILER_SECONDS_MAX. It reads
only the folder with the given files, and Protobuf's own types.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from trimaran.wire.values.failures import EXTRA, UnusableSchema

DESCRIPTORS_BYTES_MAX = 16 << 20
"""The maximum size of the descriptors of a schema and of all its imports."""
COMPILER_SECONDS_MAX = 30.0
"""The compiler takes a tenth of a second for usual schemas."""

_LONGEST_NAME = 255
_SHOWN_ERRORS = 600

# Files that Confluent's registry imports without a reference.
_CONFLUENT = {
    "confluent/meta.proto": """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
}


def compiled(name: str, texts: Mapping[str, str], descriptors: bytes = b"") -> bytes:
    """Compiles file `name`, and returns a serialized FileDescriptorSet whose last file is this one. `texts` has files
    by the names under which they are imported, and `descriptors` has further files as a serialized FileDescriptorSet.

    Raises:
        UnusableSchema: the compiler refuses it.
    """
    with tempfile.TemporaryDirectory(prefix="trimaran-protoc-") as folder:
        for each, text in {**_CONFLUENT, **texts}.items():
            path = Path(folder, "files", _checked(each))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        given = Path(folder, "given")
        given.write_bytes(descriptors)
        options = [f"--descriptor_set_in={given}"] if descriptors else []
        return _run(Path(folder, "files"), _checked(name), Path(folder, "descriptors"), options)


def compiled_file(path: Path) -> bytes:
    """Compiles a .proto file. All imports must be in the folder of the file or below it."""
    with tempfile.TemporaryDirectory(prefix="trimaran-protoc-") as folder:
        return _run(path.parent, path.name, Path(folder, "descriptors"))


def _checked(name: str) -> str:
    """Returns the name of an import. Raises UnusableSchema if it is outside of the folder of the files."""
    parts = PurePosixPath(name).parts
    if (
        not parts
        or name.startswith(("/", "-"))
        or ".." in parts
        or len(name) > _LONGEST_NAME
        or "\0" in name
    ):
        raise UnusableSchema(
            f"{name[:80]!r} is no name of an imported .proto file: see who registered it"
        )
    return name


def _run(folder: Path, name: str, output: Path, options: Sequence[str] = ()) -> bytes:
    command = [sys.executable, "-m", "grpc_tools.protoc", "--include_imports"]
    command += [*options, f"-I{folder}", f"--descriptor_set_out={output}", name]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=COMPILER_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        raise UnusableSchema(
            f"Protobuf's compiler took more than {COMPILER_SECONDS_MAX:.0f} s: simplify the schema"
        ) from None
    told = done.stderr.decode(errors="replace")
    if "No module named" in told and "grpc_tools" in told:
        raise UnusableSchema(f"Protobuf schemas need grpcio-tools. {EXTRA}")
    if done.returncode != 0:
        raise UnusableSchema(
            f"Protobuf's compiler refuses the schema: {told.strip()[:_SHOWN_ERRORS] or done.returncode}"
        )
    if (size := output.stat().st_size) > DESCRIPTORS_BYTES_MAX:
        raise UnusableSchema(
            f"the descriptors take {size} bytes, and at most {DESCRIPTORS_BYTES_MAX} are read: import less"
        )
    return output.read_bytes()

"""House rules that no linter checks: function length, module docstrings, tests in packages, forbidden words."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests import prose
from tests.mutation import survivors
from tests.source_files import asserts, parsed, source_file

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    *("wire", "log", "node", "quorum", "broker", "zkcompat", "spark", "trimaran", "bench"),
    *("distributions", "release"),
)
BODY_LINES_MAX = 70
FILE_LINES_MAX = 500
# A loop that Cython compiles as a whole: a call into another module would cost more than its work.
LONGER_FILES = {"log/batches/columns_walk.py": 665}
# These files only call other modules in order; rules belong in those modules.
SHORTER_FILES = {"broker/groups/shard.py": 299, "broker/handlers/produce.py": 130}
# Functions that were longer when the rule was introduced. The dictionary may shrink, never grow.
GRANDFATHERED: dict[str, int] = {}
# The packages whose modules have no circular imports, not even for types or inside functions. The tuple may grow, never
# shrink.
WITHOUT_CIRCLES = ("broker", "log", "node", "quorum", "spark", "trimaran", "wire", "zkcompat")
MACHINE_PATH = re.compile(r"/(?:work|home|root)/\w+")


# Classes that share a name on purpose, with the reason. Messages and records have the names of Kafka's schemas.
SAME_NAMES: dict[str, str] = {}
SCHEMAS = ("wire/messages", "wire/records")


def sources(*folders: str) -> Iterator[Path]:
    """Yields the Python files of folders, without those that a build of a wheel has left."""
    for folder in folders:
        paths = sorted((ROOT / folder).rglob("*.py"))
        yield from (path for path in paths if "build" not in path.relative_to(ROOT).parts)


@pytest.mark.parametrize("folder", PACKAGES)
def test_functions_are_small(folder):
    too_long = {
        f"{path.relative_to(ROOT)}:{name}": lines
        for path in sources(folder)
        for name, lines in source_file(path).functions
        if lines > BODY_LINES_MAX
    }
    assert {k: v for k, v in too_long.items() if v > GRANDFATHERED.get(k, 0)} == {}


@pytest.mark.parametrize("folder", PACKAGES)
def test_files_hold_one_idea(folder):
    lines = {str(p.relative_to(ROOT)): p.read_text().count("\n") for p in sources(folder)}
    limits = LONGER_FILES | SHORTER_FILES
    most = {name: limits.get(name, FILE_LINES_MAX) for name in lines}
    assert {name: n for name, n in lines.items() if n > most[name]} == {}


@pytest.mark.parametrize("folder", PACKAGES)
def test_every_module_has_a_docstring(folder):
    said = {p: source_file(p).docstring for p in sources(folder)}
    assert [p for p, text in said.items() if not text or text.startswith("TODO")] == []


# These modules write files for users, shell code, or text that `output` has formatted.
PRINTING = {
    "output.py",
    "global_options.py",
    "completion.py",
    "config_files.py",
    "generate.py",
    "live_names.py",
}


def test_commands_print_only_through_output_module():
    """Clients choose names: an ESC among them would move the terminal's cursor."""
    direct = re.compile(r"(?<![\w.])print\(|sys\.std(out|err)\.write\(")
    found = {p.name for p in sources("trimaran/cli") if direct.search(p.read_text())}
    assert found == PRINTING


def imports(root: Path, package: str, below: str = "") -> dict[str, set[str]]:
    """Returns the modules of a package that each of its modules imports, in its file or its stub, anywhere in it.
    `below` is the prefix by which imports name the package, with a dot.
    """
    paths: dict[str, list[Path]] = {}
    for path in sorted((root / package).rglob("*.py*")):
        if path.suffix not in {".py", ".pyi"}:
            continue
        parts = path.relative_to(root).with_suffix("").parts
        module = below + ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        paths.setdefault(module, []).append(path)
    found = {module: set() for module in paths}
    for module, path in ((module, path) for module, files in paths.items() for path in files):
        named = found[module]
        for node in source_file(path).imports:
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= (inner & paths.keys()) or {node.module}
    return {module: named & paths.keys() - {module} for module, named in found.items()}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Returns the strongly connected components of two and more modules: each reaches itself through the rest."""
    reached = {}
    for start, imported in graph.items():
        seen: set[str] = set()
        todo = [*imported]
        while todo:
            module = todo.pop()
            if module not in seen:
                seen.add(module)
                todo += graph[module]
        reached[start] = seen
    together = {
        tuple(sorted(other for other in reached[item] if item in reached[other]))
        for item in graph
        if item in reached[item]
    }
    return sorted(map(list, together))


@pytest.mark.parametrize("package", WITHOUT_CIRCLES)
def test_no_modules_import_each_other_in_a_circle(package):
    below = "" if package == "trimaran" else "trimaran."
    found = imports(ROOT, package, below)
    assert any(found.values())
    assert circles(found) == []


def test_circle_is_found_for_imports_at_any_place(tmp_path):
    sources = {
        "p/__init__.py": "",
        "p/a.py": "from p.q import b",
        "p/q/__init__.py": "",
        "p/q/b.py": "def f():\n    import p.c",
        "p/c.py": "if TYPE_CHECKING:\n    from p.a import X",
        "p/d.py": "from p.c import Y\nfrom p import a",
    }
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    assert circles(imports(tmp_path, "p")) == [["p.a", "p.c", "p.q.b"]]


def test_circle_through_a_stub_is_found(tmp_path):
    (tmp_path / "p").mkdir()
    for name, source in {"a.py": "import p.b", "b.py": "", "b.pyi": "from p.a import X"}.items():
        (tmp_path / "p" / name).write_text(source)
    assert circles(imports(tmp_path, "p")) == [["p.a", "p.b"]]


def later_imports(path: Path) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Returns name and module of what a file imports for type checkers, and of what it imports later."""
    checked, later = set(), set()
    for block in ast.parse(path.read_text()).body:
        if not (isinstance(block, ast.If) and block.orelse):
            continue
        for statement in block.body:
            if isinstance(statement, ast.Import):
                checked |= {(name.asname or name.name, name.name) for name in statement.names}
            elif isinstance(statement, ast.ImportFrom):
                module = statement.module
                checked |= {(n.asname or n.name, f"{module}.{n.name}") for n in statement.names}
        for statement in block.orelse:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                module = ast.literal_eval(statement.value.args[0])
                later |= {(ast.unparse(target), module) for target in statement.targets}
    return checked, later


def test_later_imports_are_those_of_type_checkers():
    used = {p: later_imports(p) for p in sources(*PACKAGES) if "imported_later(" in p.read_text()}
    used.pop(ROOT / "wire/later.py")
    assert len(used) > 20
    assert {p for p, (checked, later) in used.items() if not later or not later <= checked} == set()


def same_names(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Returns the files of each class name that several modules define."""
    found: dict[str, list[str]] = {}
    for path in paths:
        for name in source_file(path).classes:
            found.setdefault(name, []).append(path.name)
    return {name: files for name, files in found.items() if len(files) > 1}


def test_each_class_has_a_name_of_its_own():
    product = [folder for folder in PACKAGES if folder != "bench"]
    found = same_names(
        p
        for p in sources(*product)
        if not any(p.is_relative_to(ROOT / schemas) for schemas in SCHEMAS)
    )
    assert {name: files for name, files in found.items() if name not in SAME_NAMES} == {}
    assert SAME_NAMES.keys() - found.keys() == set()


def test_second_class_of_a_name_is_found(tmp_path):
    for name, source in {"a.py": "class X: ...", "b.py": "class X: ...\nclass Y: ..."}.items():
        (tmp_path / name).write_text(source)
    assert same_names(sorted(tmp_path.iterdir())) == {"X": ["a.py", "b.py"]}


def test_every_test_asserts():
    silent = [
        f"{path.relative_to(ROOT)}:{name}"
        for path in sources("tests")
        if path.name.startswith("test_")
        for name in source_file(path).silent_tests
    ]
    assert silent == []


@pytest.mark.parametrize("body", ["run()", "with suppress(E): decode()", "reassert_x()"])
def test_test_without_assertion_is_detected(body):
    assert not asserts(ast.parse(body))


def test_every_test_folder_is_a_package():
    folders = {p.parent for p in sources("tests")}
    assert [f for f in folders if not (f / "__init__.py").exists()] == []


def test_every_handler_has_a_test_of_its_name():
    """`broker/handlers/x.py` has `tests/broker/handlers/test_x.py`."""
    handlers = [
        path.relative_to(ROOT)
        for path in sources("broker", "quorum")
        if re.search(r"^@handles(_as)?\(", path.read_text(), re.MULTILINE)
    ]
    untested = [
        str(path)
        for path in handlers
        if not (ROOT / "tests" / path.with_name(f"test_{path.name}")).exists()
    ]
    assert len(handlers) > 70
    assert untested == []


def test_no_path_of_a_machine():
    here = Path(__file__).resolve()
    named = [
        p for p in sources(*PACKAGES, "tests") if p != here and MACHINE_PATH.search(p.read_text())
    ]
    assert named == []


def test_package_inits_import_nothing():
    heavy = [
        p
        for p in sources(*PACKAGES)
        if p.name == "__init__.py"
        and p.parent.name not in {"cli", "spark", "testing"}
        and any(isinstance(n, ast.Import | ast.ImportFrom) for n in ast.parse(p.read_text()).body)
    ]
    assert heavy == []


@pytest.mark.slow(seconds=10)
def test_prose_is_plain_english():
    faults = {
        str(path.relative_to(ROOT)): found
        for path in sources(*PACKAGES, "tests")
        if (found := prose.check(path))
    }
    assert faults == {}


def test_pages_of_manual_are_plain_english():
    pages = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    faults = {page.name: [*prose.markdown_faults(page.read_text())] for page in pages}
    assert {name: found for name, found in faults.items() if found} == {}


# The beginnings of comment lines, by the suffix of a file.
COMMENTS = {
    ".txt": ("#",),
    ".toml": ("#",),
    ".java": ("//", "*"),
    ".js": ("//", "*"),
    ".go": ("//",),
}


def test_comments_of_transcripts_and_other_languages_are_plain():
    files = [
        path
        for folder in (*PACKAGES, "tests")
        for suffix in COMMENTS
        for path in sorted((ROOT / folder).rglob(f"*{suffix}"))
        if suffix != ".txt" or "testdata" in path.parts
    ]
    faults = {
        str(path.relative_to(ROOT)): found
        for path in files
        if (found := [*prose.comment_faults(path.read_text(), *COMMENTS[path.suffix])])
    }
    assert len(files) > 250
    assert faults == {}


def test_fault_in_comment_of_transcript_is_found():
    (found,) = prose.comment_faults("x\n----\n# Nobody\n# waits.\n# It ends.\nnobody", "#")
    assert found.startswith("3: ")


def test_reasons_of_survivors_are_plain_english():
    reasons = {entry.why[:1].upper() + entry.why[1:] for entry in survivors.read()}
    assert [*prose.markdown_faults("\n\n".join(sorted(reasons)))] == []


# Words that identifiers must not have; established ones are report, response, text, search, check, again.
PRIVATE_WORDS = {"told", "said", "look", "heed", "hasten", "anew", "whose", "nobody", "somebody"}


def test_functions_and_classes_have_established_names():
    named = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources(*PACKAGES)
        for name in (
            *(name for name, _ in source_file(path).functions),
            *source_file(path).classes,
        )
        if PRIVATE_WORDS & set(name.lower().replace("look_up", "find").split("_"))
    }
    assert named == set()


def test_fault_in_page_is_found_outside_of_code():
    page = "# Who leads\n\n- It waits.\n- Nobody\n  waits.\n\n```\nNobody.\n```\n| nobody |\n"
    (found,) = prose.markdown_faults(page)
    assert found.startswith("4: ")


@pytest.mark.parametrize(
    "sentence",
    [
        "Who leads decides.",
        "Asks, and whoever answers is right.",
        "What is refused stays.",
        "Of a broker.",
        "Nobody waits.",
        "Raises, where the log ends, an error.",
        "Holds so many items.",
        "The client is told.",
        "It stands for zero.",
        "Begins anew.",
        "Reads. Left out: writing.",
        "Until the end of it.",
    ],
)
def test_dialect_is_found_in_docstring_and_comment(sentence):
    assert list(prose.faults(f'"""{sentence}"""'))
    assert list(prose.faults(f"x = 1  # {sentence}"))


def test_plain_sentences_and_code_are_no_faults():
    text = "Returns the leader of a partition; `nobody` and `Of x` are names."
    assert list(prose.faults(f'"""{text}"""')) == []


@pytest.mark.parametrize(
    "name",
    ["test_who_leads", "test_of_many", "test_a_b_c_d_e_f_g_h_i"],
)
def test_long_or_interrogative_test_names_are_found(name):
    assert list(prose.bad_test_names(parsed(f"def {name}(): ..."))) == [name]
    plain = parsed("def test_subject_with_condition_has_outcome(): ...")
    assert list(prose.bad_test_names(plain)) == []


def test_programs_of_interop_have_sources():
    """`./dev interop` compiles them; no other test would miss one."""
    named = {
        name
        for path in sorted((ROOT / "tests" / "interop").rglob("*.py"))
        for words in re.findall(
            r"(?:compiled|command|lines)\((?:\w+, )?\"[A-Z]\w+\"|PROGRAMS = \(.*\)",
            path.read_text(),
        )
        for name in re.findall(r"\"([A-Z]\w+)\"", words)
    }
    sources = {path.stem for path in (ROOT / "tests" / "interop" / "java").glob("*.java")}
    assert {"ShareMembers", "Topologies", "Transactions", "Copiers"} <= named <= sources

from trimaran.cli import doctor
from trimaran.cli.doctor import examine


def test_every_problem_found_has_a_fix():
    findings = examine()
    assert [f for f in findings if f.level != "ok" and not f.fix] == []
    assert {"python", "java", "fsync"} <= {f.check for f in findings}


def test_foreign_pyspark_python_is_named(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/env")
    assert doctor.spark_python().level == "warn"


def test_missing_java_error_names_its_source(monkeypatch):
    monkeypatch.setattr(doctor.runtime_java, "javas", lambda: iter(()))
    found = doctor.java()
    assert found.level == "warn"
    assert "trimaran[java]" in found.fix


def test_broken_format_of_another_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "pyspark_broken.py").write_text("import nothing_of_that_name\n")
    assert doctor.spark_formats().level == "ok"
    monkeypatch.syspath_prepend(tmp_path)
    finding = doctor.spark_formats()
    assert finding.level == "fail"
    assert f"{tmp_path / 'pyspark_broken.py'} does not load" in finding.found


def test_formats_of_spark_are_not_missed_without_spark(monkeypatch):
    """The formats cannot be loaded without Spark, and are not needed then."""
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    found = doctor.spark_formats()
    assert (found.level, found.found) == ("ok", "Spark is not installed")

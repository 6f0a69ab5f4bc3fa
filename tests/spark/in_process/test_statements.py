"""Statements of users in the engine of this process, and those that only Spark runs."""

import re
from pathlib import Path

import pytest

from tests.checks import check_each
from trimaran.spark import sources
from trimaran.spark.in_process import statements
from trimaran.spark.in_process.reading import read_view, schema_of_view
from trimaran.spark.in_process.statements import NotCommon, run_statement

PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark.md"
SECTION = PAGE.read_text().partition("## Ten questions in SQL")[2]
QUESTIONS = re.findall(r"```sql\n(.*?)```", SECTION, re.DOTALL)

COMMON = (
    "SELECT topic, count(*) FROM records GROUP BY topic",
    "SELECT count(DISTINCT key) AS keys, sum(offset), min(timestamp), max(partition) FROM records",
    "SELECT * FROM batches ORDER BY base_offset",
    "SELECT key, value, headers FROM records WHERE value IS NOT NULL ORDER BY offset",
    "SELECT DISTINCT topic, partition FROM records WHERE offset BETWEEN 3 AND 5 OR offset IN (7, 9)",
    "SELECT b.compression, sum(r.offset) AS n FROM records r JOIN batches b "
    "ON r.offset >= b.base_offset AND r.offset <= b.last_offset GROUP BY b.compression ORDER BY n DESC",
    "WITH late AS (SELECT * FROM records WHERE timestamp > '1970-01-01 00:00:05') SELECT count(*) FROM late",
    "SELECT leader, CASE WHEN leader IS NULL THEN 'none' ELSE cause END AS why FROM leader_changes ORDER BY offset",
    "SELECT `group` FROM group_offsets UNION ALL SELECT topic FROM records ORDER BY 1 LIMIT 3",
    "SELECT offset, row_number() OVER (PARTITION BY partition ORDER BY offset DESC) AS n FROM records "
    "QUALIFY n <= 2 ORDER BY offset",
    "SELECT offset FROM records WHERE topic LIKE 'ord%' AND NOT offset > 5 ORDER BY offset DESC",
    "WITH r AS (SELECT * FROM records) SELECT partition AS n FROM r UNION SELECT offset FROM r "
    "UNION ALL (SELECT NULL AS n FROM batches)",
    "SELECT TOPIC, Partition FROM records WHERE timestamp > '1970-01-01T00:00:05Z' AND offset < '80'",
    "SELECT topic, CASE partition WHEN 0 THEN 'first' END AS which, if(offset > 3, NULL, offset) AS n FROM records",
    "SELECT coalesce(lag(offset, 1, 0) OVER (ORDER BY offset), -1) AS n, unix_millis(timestamp) AS t FROM records",
    "SELECT max(is_open) AS n, count(is_open) AS m FROM transactions",
    "SELECT topic FROM records WHERE key = 'k1' OR partition = '0'",
    "SELECT replica FROM partition_history LATERAL VIEW explode(replicas) AS replica WHERE replica > 0 AND size(isr) = 1",
    "SELECT topic, replica FROM partition_history LATERAL VIEW explode(replicas) AS replica ORDER BY 1, 2",
)
SPARKS_ALONE = (
    "SELECT offset / partition FROM records",  # a division by zero is an error of Spark
    "SELECT upper(topic) FROM records",
    "SELECT CAST(offset AS INT) FROM records",
    "SELECT offset + 1 FROM records",  # Spark names it
    "SELECT offset * 1.5 AS n FROM records",  # a decimal
    "SELECT * FROM records JOIN batches USING (topic)",
    "SELECT topic FROM records WHERE topic LIKE 'a\\\\_b'",
    "SELECT topic FROM records WHERE topic LIKE value",  # a value with an escape
    "SELECT topic FROM records WHERE key = '\\\\x41'",
    "SELECT topic FROM records WHERE offset > '1.5'",  # DuckDB would round this value
    "SELECT topic FROM records WHERE offset > '1e1'",
    "SELECT topic FROM records WHERE timestamp > '2026-01-01 02:00:00 Europe/Berlin'",
    "SELECT topic FROM records WHERE timestamp > 'epoch'",
    "SELECT topic FROM records WHERE timestamp > '2026/01/01'",
    "SELECT topic FROM records WHERE timestamp < 'infinity'",
    "SELECT topic FROM records UNION ALL SELECT partition FROM records",  # Spark converts both to numbers
    "WITH r AS (SELECT * FROM records) SELECT 1 AS n FROM r UNION SELECT topic FROM r",
    "SELECT x FROM (SELECT topic AS x FROM records UNION SELECT offset FROM records) t",
    "SELECT topic FROM records WHERE partition",  # Spark accepts only booleans as conditions
    "SELECT topic FROM records WHERE NOT offset",
    "SELECT topic FROM records WHERE offset > 3 AND partition",
    "SELECT topic FROM records GROUP BY topic HAVING count(*)",
    "SELECT topic FROM records QUALIFY row_number() OVER (PARTITION BY topic ORDER BY offset)",
    "SELECT r.topic FROM records r JOIN batches b ON r.offset",
    "SELECT CASE WHEN offset THEN 1 ELSE 2 END AS n FROM records",
    "SELECT if(offset, 1, 2) AS n FROM records",
    "SELECT transactional_id FROM transactions WHERE is_open = 1",
    "SELECT transactional_id FROM transactions WHERE is_open = 'yes'",
    "SELECT transactional_id FROM transactions WHERE is_open IN (1, 0)",
    "SELECT transactional_id FROM transactions WHERE is_open BETWEEN 0 AND 1",
    "SELECT transactional_id FROM transactions WHERE is_open <=> 1",
    "WITH t AS (SELECT is_open AS o FROM transactions) SELECT o FROM t WHERE o > 0",
    "SELECT sum(is_open) AS n FROM transactions",
    "SELECT -is_open AS n FROM transactions",
    "SELECT is_open + 1 AS n FROM transactions",
    "SELECT coalesce(is_open, 0) AS n FROM transactions",
    "SELECT coalesce(topic, 0) AS n FROM records",
    "SELECT CASE WHEN offset > 1 THEN 'many' ELSE 0 END AS n FROM records",
    "SELECT CASE is_open WHEN 1 THEN 'open' END AS n FROM transactions",
    "SELECT if(offset > 1, 'many', 0) AS n FROM records",
    "SELECT lag(offset, 1, 'none') OVER (ORDER BY offset) AS n FROM records",
    "SELECT topic FROM records WHERE partition LIKE '1%'",
    "SELECT unix_millis(offset) AS n FROM records",
    "SELECT size(topic) AS n FROM records",
    "SELECT topic FROM records LIMIT '3'",
    "SELECT nothing FROM records",
    "SELECT topic, topic FROM records",
    "SELECT topic, TOPIC FROM records",
    "SELECT * FROM elsewhere",
    "SELEKT 1",
    "SHOW TABLES",
    "SELECT 1; SELECT 2",
    "",
)


def canonical(rows):
    return sorted((list(row.items()) for row in rows), key=repr)


def test_statement_of_another_meaning_is_left_to_spark(small_cluster):
    def check(statement):
        with pytest.raises(NotCommon):
            run_statement(statement, small_cluster, 10)

    check_each(SPARKS_ALONE, check)


def test_common_statements_need_no_spark(small_cluster):
    check_each(COMMON, lambda statement: assert_rows(run_statement(statement, small_cluster, 1000)))


def assert_rows(rows):
    assert rows


def test_column_keeps_the_letter_case_of_statement(small_cluster):
    statement = (
        "SELECT b.Topic, max(OFFSET) FROM (SELECT TOPIC, offset FROM records) b GROUP BY topic"
    )
    assert run_statement(statement, small_cluster, 10) == [{"Topic": "orders", "max(OFFSET)": 99}]


def test_views_of_statement_share_the_bound(small_cluster, monkeypatch):
    batches = read_view("batches", schema_of_view("batches", small_cluster), small_cluster, 1 << 20)
    monkeypatch.setattr(statements, "IN_PROCESS_BYTES", batches.nbytes)
    one = "SELECT * FROM batches"
    assert len(run_statement(one, small_cluster, 100)) == 10
    two = f"{one} WHERE base_offset IN (SELECT offset FROM metadata_batches)"
    with pytest.raises(NotCommon, match=r"the table metadata_batches takes more than 0 bytes"):
        run_statement(two, small_cluster, 100)


def test_number_of_rows_is_limited(small_cluster):
    rows = run_statement("SELECT offset FROM records ORDER BY offset", small_cluster, 3)
    assert [row["offset"] for row in rows] == [0, 1, 2]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_rows_of_statements_equal_those_of_spark(spark, small_cluster):
    sources.views(spark, small_cluster)
    assert len(QUESTIONS) == 10

    def check(statement):
        theirs = [row.asDict(recursive=True) for row in spark.sql(statement).limit(1000).collect()]
        assert canonical(run_statement(statement, small_cluster, 1000)) == canonical(theirs)

    check_each((*COMMON, *QUESTIONS), check)

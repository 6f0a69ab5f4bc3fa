"""Third-party tests of Kafka's protocol, run on our cluster and on one of Apache Kafka in the same set-up. `python -m
tests.interop.suites SUITE ours|kafka [TEST …]` runs a suite, or some of its tests, and stores the results in
`results/`. `docs/compatibility.md` is generated from them, and `./dev interop` requires that we pass the tests that
Kafka passes.
"""

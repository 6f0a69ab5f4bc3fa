"""Tests that others wrote for Kafka's protocol, run on a cluster of ours and on one of Apache Kafka in the same set-up.

`python -m tests.interop.suites SUITE ours|kafka [TEST …]` runs a suite, or some of it, and stores its results in
`results/`. From there `docs/compatibility.md` is written, and `./dev interop` holds us to what Kafka passes.
"""

import contextlib
import os
import signal
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.cli.line_batches import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, Interrupt, LineBatches
from trimaran.errors.user_error import UserError


@contextlib.contextmanager
def batches_of_pipe():
    reader, writer = os.pipe()
    with Interrupt() as interrupt, os.fdopen(writer, "wb", buffering=0) as pipe:
        lines = LineBatches(reader, interrupt)
        yield pipe, lines, iter(lines)
    os.close(reader)


@given(st.binary(max_size=200).map(lambda text: text.replace(b"\r", b"")))
def test_all_lines_come_in_their_order(text):
    with batches_of_pipe() as (pipe, lines, batches):
        pipe.write(text)
        pipe.close()
        expected = text.split(b"\n")
        if not expected[-1]:
            expected.pop()
        assert [line for batch in batches for line in batch] == expected
        assert lines.lines_read == len(expected)


def test_lines_of_open_pipe_are_delivered():
    with batches_of_pipe() as (pipe, lines, batches):
        pipe.write(b"one\r\ntwo\nhal")
        assert next(batches) == [b"one", b"two"]
        pipe.write(b"f\n")
        assert next(batches) == [b"half"]
        assert lines.unfinished_bytes == 0


def test_interrupt_delivers_lines_and_counts_partial_bytes():
    with batches_of_pipe() as (pipe, lines, batches):
        pipe.write(b"x\n")
        assert next(batches) == [b"x"]
        pipe.write(b"one\nhal")
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGTERM)).start()
        assert [line for batch in batches for line in batch] == [b"one"]
        assert lines.unfinished_bytes == 3


def test_second_interrupt_has_default_effect():
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert interrupt.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_batches_fit_a_brokers_limit():
    line = b"x" * (BATCH_BYTES_MAX // 3)
    with batches_of_pipe() as (pipe, lines, batches):
        sender = threading.Thread(
            target=lambda: (pipe.write(b"".join([line + b"\n"] * 7 + [b"\n"] * 1200)), pipe.close())
        )
        sender.start()
        found = list(batches)
        sender.join()
    assert sum(map(len, found)) == lines.lines_read == 1207
    assert max(map(len, found)) <= BATCH_RECORDS_MAX
    assert max(sum(map(len, batch)) for batch in found) <= BATCH_BYTES_MAX


def test_input_without_line_ends_is_refused(monkeypatch):
    monkeypatch.setattr("trimaran.cli.line_batches.LINE_BYTES_MAX", 100)
    with batches_of_pipe() as (pipe, _, batches):
        pipe.write(b"x" * 101)
        with pytest.raises(UserError, match="longer than"):
            next(batches)

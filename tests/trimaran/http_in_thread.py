"""The HTTP server of the console and of the control of faults, in a thread of the test's process."""

import threading
from concurrent.futures import Future
from contextlib import contextmanager

import trio

from trimaran.console.http_server import run
from trimaran.console.start import listen_on


@contextmanager
def served_in_thread(application, tls=None):
    """Yields the address at which the application is served."""
    listener = listen_on(("127.0.0.1", 0))
    address = listener.getsockname()
    token, stop = Future(), trio.Event()

    async def wait_for_stop():
        token.set_result(trio.lowlevel.current_trio_token())
        await stop.wait()

    arguments = (application, listener, lambda: None, wait_for_stop, tls)
    # A daemon thread: if it does not end, the test fails, but pytest ends.
    thread = threading.Thread(target=run, args=arguments, daemon=True)
    thread.start()
    running = token.result(30)
    try:
        yield address
    finally:
        running.run_sync_soon(stop.set)
        thread.join(30)
    assert not thread.is_alive()

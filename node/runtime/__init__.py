"""The runtime that controllers and brokers share, below their loops.

- Waiting: `latest.py` for a value, `watermark.py` for an offset, `epoch.py` for work that ends with a leadership.
- Long work: `pacing.py` and `steps.py` on the loop, `threads.py` in threads; `slow_steps.py` finds slow steps.
- The process: `graceful.py` and `parent_death.py` for its end, `long_lived.py` for its memory, `ports.py`, `clock.py`.
"""

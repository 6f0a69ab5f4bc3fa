"""Counts how often a function is called in one step of the loop; the limit is independent of the machine."""

import threading

import trio


class Work(trio.abc.Instrument):
    """Counts calls of a method: in total, in the longest step, and in threads other than the loop's."""

    def __init__(self, monkeypatch, owner, name):
        self.calls = self.in_step = self.in_longest_step = self.elsewhere = 0
        self._loop = threading.get_ident()
        original = vars(owner)[name]
        is_class_method = isinstance(original, classmethod)
        function = original.__func__ if is_class_method else original

        def counted(*args, **kwargs):
            self.calls += 1
            if threading.get_ident() == self._loop:
                self.in_step += 1
                self.in_longest_step = max(self.in_longest_step, self.in_step)
            else:
                self.elsewhere += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, classmethod(counted) if is_class_method else counted)
        trio.lowlevel.add_instrument(self)

    def before_task_step(self, task):
        self.in_step = 0

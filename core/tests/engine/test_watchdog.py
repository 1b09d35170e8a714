import threading
import time
from types import SimpleNamespace

from sgl_core.engine.watchdog import watch_steps


def test_a_step_that_never_ends_is_noticed():
    stopped = threading.Event()
    loop = SimpleNamespace(busy=True, last_turn=time.monotonic() - 100)
    thread = watch_steps(loop, 0.02, stopped.set)
    assert stopped.wait(5)
    thread.join(5)
    assert not thread.is_alive()


def test_an_idle_loop_is_left_alone():
    stopped, looked = threading.Event(), threading.Event()

    class Idle:
        last_turn = 0.0
        looks = 0

        @property
        def busy(self):
            self.looks += 1
            if self.looks == 3:
                looked.set()
            return False

    watch_steps(Idle(), 0.01, stopped.set)
    assert looked.wait(5)
    assert not stopped.is_set()


def test_no_time_means_no_watch():
    assert watch_steps(SimpleNamespace(busy=True, last_turn=0.0), 0) is None
    assert watch_steps(SimpleNamespace(busy=True, last_turn=0.0), None) is None

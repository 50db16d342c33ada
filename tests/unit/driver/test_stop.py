"""A request to stop is remembered, even when Python has dropped the exception that a signal raised."""

from __future__ import annotations

import os
import signal

import pytest

from endmark.driver.stop import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_whose_exception_was_dropped_ends_the_start(number: signal.Signals) -> None:
    """Python drops an exception that comes from a callback. The next step of the start finds the request."""
    stop = StopRequest()
    with stop.listening():
        stop.check()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt):
            stop.check()
        with pytest.raises(KeyboardInterrupt):
            stop.wait_quietly()
        assert stop.explains(RuntimeError("the JVM has hung up"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_a_running_job_raises_nothing(number: signal.Signals) -> None:
    """This holds even if another library has taken the signal meanwhile. Earlier handlers are put back."""
    before = signal.getsignal(number)
    stop = StopRequest()
    with stop.listening():
        signal.signal(number, signal.SIG_DFL)
        stop.wait_quietly()
        assert not stop.event.is_set()
        os.kill(os.getpid(), number)
        assert stop.event.is_set()
    assert signal.getsignal(number) == before


def test_an_error_without_a_signal_is_an_error() -> None:
    assert not StopRequest().explains(RuntimeError("a fault"))

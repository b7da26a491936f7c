"""Writes checkpoints from a thread while the training goes on (`checkpoint_in_background`)."""

from __future__ import annotations

from threading import Thread
from typing import Any, Callable


class Background:
    """A copy of the state in host memory, and the thread that writes this copy. One checkpoint at a time.

    Args:
        copy: copies a state into host memory; it may use the memory of the copy before.
    """

    def __init__(self, copy: Callable[[Any], Any]) -> None:
        self._copy = copy
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def write(self, state: Any, write: Callable[[Any], object]) -> None:
        """Copy the state, and write the copy from the thread. Waits for the checkpoint before. Raises its error."""
        self.finish()
        copy = self._copy(state)
        self._thread = Thread(target=self._run, args=(copy, write), name="checkpoint")
        self._thread.start()

    def finish(self) -> None:
        """Wait until the last checkpoint is written. Raises the error of its thread."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self, copy: Any, write: Callable[[Any], object]) -> None:
        try:
            write(copy)
        except BaseException as error:  # the training raises it, at its next checkpoint or its end
            self._error = error

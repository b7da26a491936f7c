"""Loads batches ahead."""

from concurrent.futures import ThreadPoolExecutor

from flagperf.trainer.pytorch.loading import Loader


class AheadLoader(Loader):
    """Loads as flagperf does, and takes each batch from the loading processes while the one before is used."""

    def __iter__(self):
        """The batches."""
        batches = super().__iter__()
        with ThreadPoolExecutor(1) as ahead:
            waiting = ahead.submit(next, batches, None)
            while (batch := waiting.result()) is not None:
                waiting = ahead.submit(next, batches, None)
                yield batch

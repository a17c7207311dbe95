"""The batches of each optimiser step, prefetched in a thread while the model computes.

With gradient accumulation a step has several batches; each process gets its share of their
examples. The loader has no state: `steps(start, end)` starts at any step, even in the middle of an
epoch, and gives the batches that an uninterrupted run would have got.
"""

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from glassformer.data.batches import Batch, EpochRNG, Order, divide_batch
from glassformer.data.examples import Examples
from glassformer.data.token_store import Ids

T = TypeVar("T")


@dataclass(frozen=True)
class StepBatches:
    """The batches of one optimiser step."""

    epoch: int
    batches: tuple[Batch, ...]


@dataclass(frozen=True)
class Loader:
    examples: Examples[Batch]
    order: Order
    accumulate: int = 1
    rank: int = 0
    n_processes: int = 1
    fixed_shapes: bool = False
    """Whether all batches of a bucket are filled up to the same shape."""

    def steps(self, start: int, end: int) -> Iterator[StepBatches]:
        """The batches of steps `start` to `end` − 1, prefetched."""
        return _prefetch(self._steps(start, end), room=4)

    def _steps(self, start: int, end: int) -> Iterator[StepBatches]:
        first_epoch, first_batch = divmod(start, self.order.n_batches)
        left = max(0, end - start)  # a resumed run may ask for fewer steps than it has taken
        for epoch in range(first_epoch, first_epoch + left // self.order.n_batches + 2):
            batches = self.order.epoch(epoch)[first_batch:][:left]
            for indices in batches:
                yield StepBatches(epoch, self._share(indices, EpochRNG(self.order.seed, epoch)))
            left -= len(batches)
            first_batch = 0

    def _share(self, indices: Ids, rng: EpochRNG) -> tuple[Batch, ...]:
        """This process's batches of the examples of one step."""
        n_parts = self.accumulate * self.n_processes
        mine = divide_batch(indices, n_parts)[self.rank :: self.n_processes]
        shape = self.order.shape_of(indices) if self.fixed_shapes else None
        batches = []
        for part in mine:
            # Every process must take part in every step, even without examples of its own.
            chosen = part if len(part) else indices[:1]
            batch = self.examples.batch(chosen, rng, shape.width if shape else 0)
            scored = batch if len(part) else batch.unscored()
            batches.append(scored.filled(-(-shape.rows // n_parts)) if shape else scored)
        return tuple(batches)


def evaluation_batches(
    examples: Examples[Batch], order: Order, rank: int = 0, n_processes: int = 1
) -> Iterator[tuple[Ids, Batch]]:
    """This process's share of all examples, each once, with its index; nothing is random."""
    rng = EpochRNG(seed=0, epoch=0)
    for indices in order.sequential()[rank::n_processes]:
        yield indices, examples.batch(indices, rng)


class _Failure(Generic[T]):
    """An exception on its way from the thread to the consumer."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _prefetch(source: Iterator[T], room: int) -> Iterator[T]:
    """The same items, up to `room` of them computed ahead in a thread."""
    items: queue.Queue[T | _Failure[T] | None] = queue.Queue(room)
    stopped = threading.Event()

    def put(item: T | _Failure[T] | None) -> bool:
        while not stopped.is_set():
            try:
                items.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in source:
                if not put(item):
                    return
            put(None)
        except BaseException as error:  # raised again in the consumer's thread
            put(_Failure(error))

    thread = threading.Thread(target=work, name="batches", daemon=True)
    thread.start()
    try:
        while (item := items.get()) is not None:
            if isinstance(item, _Failure):
                raise item.error
            yield item
    finally:
        stopped.set()
        thread.join()

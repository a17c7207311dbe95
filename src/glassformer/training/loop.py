"""The training loop: updates, looks, saves; and stops that lose nothing.

Everything that an update depends on is in the state, so a run that was killed goes on as if it had
not been. This file knows neither data sets nor which model it trains, nor how a step is made.
"""

import math
import time
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.data import Loader, Update
from glassformer.errors import TrainingError
from glassformer.training.acceleration import choose_acceleration
from glassformer.training.average import WeightAverage
from glassformer.training.config import RunConfig
from glassformer.training.evaluation import Evaluator, Scores, is_better
from glassformer.training.folder import RunFolder
from glassformer.training.interruption import Interruption
from glassformer.training.position import Position, Tally
from glassformer.training.problems import Problem
from glassformer.training.processes import Processes
from glassformer.training.progress import Reporter
from glassformer.training.progress import say as progress
from glassformer.training.schedule import learning_rate_share
from glassformer.training.sharding import all_whole, cut_like, fill
from glassformer.training.state import (
    State,
    capture_random,
    newest_state,
    restore_random,
    save_state,
    seed_random,
)
from glassformer.training.update import Updater
from glassformer.training.watching import Watch

__all__ = ["Trainer"]


class Trainer:
    """Trains one model; `run` returns when it is done, or raises with the last state saved."""

    def __init__(
        self,
        config: RunConfig,
        problem: Problem,
        model: nn.Module,
        *,
        folder: RunFolder,
        device: torch.device,
        processes: Processes,
        reporter: Reporter,
    ) -> None:
        self.config, self.problem, self.folder = config, problem, folder
        self.device, self.processes, self.reporter = device, processes, reporter
        is_sharded = config.loop.sharding == "fsdp" and processes.n > 1
        self._unsharded = deepcopy(model) if is_sharded else None
        self.model = model.to(device)
        self.best: dict[str, Tensor] = {}
        self.position = Position()
        order = problem.order(config.data, config.loop.seed)
        self.total, self.evaluate_every = config.loop.updates(order.n_batches)
        self.save_every = config.loop.save_every or self.evaluate_every
        self.acceleration = choose_acceleration(
            config, device, n_shapes=order.n_shapes, n_updates=self.total, alone=processes.n == 1
        )
        self.updater = Updater(
            config,
            self.model,
            problem.measure,
            device=device,
            processes=processes,
            acceleration=self.acceleration,
        )
        self.optimiser = self.updater.optimiser
        decay = config.loop.average
        self.average = WeightAverage(self.model, decay) if decay else None
        self.loader = Loader(
            problem.train,
            order,
            config.loop.accumulate,
            processes.rank,
            processes.n,
            self.acceleration.fixed_shapes,
        )
        at_once = config.data.max_tokens or 16_384
        self.evaluator = Evaluator(
            problem, device, processes, self.updater.precision, max_tokens=at_once
        )
        self.watch = (
            Watch(folder.path, problem, config.recipe, self.total, writes=processes.is_first)
            if config.loop.watch
            else None
        )

    def run(self, interruption: Interruption) -> None:
        """All updates from where the run is to its end, or to an interruption."""
        self.model.train()
        if self.watch and self.position.step == 0:  # what chance gave, to compare with
            self.watch.look(self._whole_model(), 0)
        self.reporter.start(self.position.step, self.total)
        tally = self._new_tally()
        # A resumed run may have been out of patience already: not one update more.
        end = self.position.step if self._is_out_of_patience() else self.total
        for update in self.loader.updates(self.position.step, end):
            self._update(update, tally)
            position = self.position
            position.step += 1
            self.reporter.tick(position.step)
            at_end = position.step == self.total
            due_to_look = at_end or position.step % self.evaluate_every == 0
            due_to_save = at_end or position.step % self.save_every == 0
            stop = self.processes.any(interruption.asked, self.device)
            if (
                due_to_look
                or due_to_save
                or stop
                or position.step % self.config.loop.log_every == 0
            ):
                self._report(tally, update.epoch)
                if due_to_look:
                    self._look()
                if due_to_save or stop:
                    self.save()
                tally = self._new_tally()
            if stop:
                raise KeyboardInterrupt
            if self._is_out_of_patience():
                self.reporter.line(progress("stopped", n=position.n_worse))
                if not due_to_save:
                    self.save()
                break

    @property
    def kept_step(self) -> int:
        """The update after which the weights were as they are kept."""
        is_best = self.best and self.config.loop.select == "best"
        return self.position.best_step if is_best else self.position.step

    def final_model(self) -> nn.Module:
        """With the weights to keep: the best by validation, or the last (averaged, if so set)."""
        if self.best and self.config.loop.select == "best":
            fill(self.model, self.best)
        elif self.average:
            fill(self.model, self.average.tensors())
        return self._whole_model()

    def _is_out_of_patience(self) -> bool:
        patience = self.config.loop.patience
        return patience is not None and self.position.n_worse >= patience

    def _whole_model(self) -> nn.Module:
        """The model as it is now, to be used by each process alone."""
        if self._unsharded is None:
            return self.model
        unsharded = self._unsharded.to(self.device)
        fill(unsharded, all_whole(dict(self.model.named_parameters())))
        return unsharded

    def save(self) -> None:
        """Write a state to resume from."""
        sections: dict[str, dict[str, Tensor]] = {
            "model": all_whole(dict(self.model.named_parameters())),
            "optimiser": all_whole(self.optimiser.tensors()),
            "average": all_whole(self.average.tensors() if self.average else {}),
            "best": all_whole(self.best),
        }
        generators = self.processes.gather([capture_random(self.device)])
        if self.processes.is_first:
            for rank, (captured, _) in enumerate(generators):
                sections[f"random.{rank}"] = captured
            tensors = {
                f"{section}.{name}": tensor
                for section, named in sections.items()
                for name, tensor in named.items()
            }
            facts: dict[str, Any] = {
                "position": vars(self.position),
                "random": [said for _, said in generators],
                "data": self.problem.identity,
                "config": asdict(self.config),
            }
            state = State(self.position.step, tensors, facts)
            save_state(self.folder.states, state, self.config.loop.keep)
        self.processes.wait()

    def resume(self) -> bool:
        """Take up the newest state that is whole; False where there is none."""
        state = newest_state(self.folder.states, self.reporter.line)
        if state is None:
            self._rewind(0)
            return False
        self.problem.check_identity(state.facts.get("data", {}))
        self._check_seed(state)
        fill(self.model, state.section("model"))
        self.optimiser.load(state.section("optimiser"))
        if self.average:  # where averaging is new, it begins with the weights as they are
            self.average.load(state.section("average") or state.section("model"))
        parameters = dict(self.model.named_parameters())
        self.best = {
            name: cut_like(tensor.to(self.device), parameters[name])
            for name, tensor in state.section("best").items()
        }
        self.position = Position(**state.facts["position"])
        if self.config.loop.select == "best" and not self.best:  # they were not kept until now
            self.position.forget_best()
        self._restore_random(state)
        self._rewind(state.step)
        return True

    def _restore_random(self, state: State) -> None:
        """Let this process draw on where the process of its rank stopped."""
        rank, n_now = self.processes.rank, self.processes.n
        said = state.facts["random"]
        saved = said if isinstance(said, list) else [said]  # before 0.1: of the first process alone
        if rank < len(saved):
            tensors = state.section(f"random.{rank}") or state.section("random")
            restore_random(tensors, saved[rank], self.device)
        else:  # a process that the run did not have: its dropout must differ from the others'
            seed_random(hash((self.config.loop.seed, state.step, rank)))
        if n_now != len(saved):
            self.reporter.line(
                progress("processes", before=_processes(len(saved)), now=_processes(n_now))
            )

    def _check_seed(self, state: State) -> None:
        """Refuse states of another seed: the rest of the run would be in another order."""
        began = state.facts.get("config", {}).get("loop", {}).get("seed", self.config.loop.seed)
        if began != self.config.loop.seed:
            raise TrainingError(
                f"the states in {self.folder.states} are of the seed {began}, not of "
                f"{self.config.loop.seed}; leave loop.seed as it was, or start in another folder"
            )

    def _rewind(self, step: int) -> None:
        """Forget what was written after a step: the run will write it again."""
        if self.processes.is_first:
            self.folder.rewind(step)
            if self.watch:
                self.watch.rewind(step)

    def _update(self, update: Update, tally: Tally) -> None:
        """One step of the optimiser."""
        share = learning_rate_share(self.config.schedule, self.position.step, self.total)
        done = self.updater(update, share)
        tally.sums[0] += done.nll
        tally.sums[1] += sum(batch.n_scored for batch in update.batches)
        tally.sums[2] += done.norm
        tally.n_tokens += sum(batch.n_tokens for batch in update.batches)
        tally.n_updates += 1
        if self.average:
            self.average.update(self.position.step + 1)
        if self.device.type == "cpu":  # elsewhere a look at it would wait for the device
            self._check_finite(tally, self.position.step + 1)

    def _new_tally(self) -> Tally:
        return Tally(torch.zeros(3, device=self.device))

    def _check_finite(self, tally: Tally, step: int) -> None:
        nll, _, norm = tally.sums.tolist()
        if not (math.isfinite(nll) and math.isfinite(norm)):
            raise self._diverged("the loss or its gradient", step)

    def _diverged(self, what: str, step: int) -> TrainingError:
        states = self.folder.states
        kept = f"the last good state is kept in {states}" if states.is_dir() else "no state is kept"
        return TrainingError(
            f"{what} is not a number at step {step}; {kept}. Try a lower optimiser.lr, a longer "
            "schedule.warmup or optimiser.clip"
        )

    def _report(self, tally: Tally, epoch: int) -> None:
        """Write what happened since the last report; the device is done with it first."""
        self._check_finite(tally, self.position.step)
        sums = self.processes.sum(tally.sums.clone()).tolist()
        n_tokens = self.processes.sum(torch.tensor(float(tally.n_tokens), device=self.device))
        seconds = time.perf_counter() - tally.since
        position = self.position
        position.n_tokens += int(n_tokens)
        position.seconds += seconds
        share = learning_rate_share(self.config.schedule, position.step - 1, self.total)
        record = {
            "step": position.step,
            "epoch": epoch,
            "loss": sums[0] / max(1.0, sums[1]),
            "grad_norm": sums[2] / (tally.n_updates * self.processes.n),
            "lr": self.config.optimiser.lr * share,
            "tokens_per_s": float(n_tokens) / seconds,
            "n_tokens": position.n_tokens,
            "train_seconds": position.seconds,
        }
        if self.processes.is_first:
            self.folder.log(record)
            shown = {name: record[name] for name in ("loss", "tokens_per_s")}
            if position.best_score is not None:
                shown["best"] = position.best_score
            self.reporter.step(position.step, shown)

    def _look(self) -> None:
        """Evaluate on validation data, and keep the weights if they are the best so far."""
        started = time.perf_counter()
        with self.average.in_place() if self.average else nullcontext():
            model = self._whole_model()
            if self.watch:
                self.watch.look(model, self.position.step)
            if self.problem.valid is None:
                return
            scores = self.evaluator(model, self.problem.valid)
            # The last update's loss was that of the weights before it.
            if not math.isfinite(scores.value):
                raise self._diverged(f"the {scores.main} on validation data", self.position.step)
            self._compare(scores)
        if self.processes.is_first:
            record = {f"valid_{name}": value for name, value in scores.values.items()}
            seconds = time.perf_counter() - started
            self.folder.log({"step": self.position.step, **record, "evaluation_seconds": seconds})
            numbers = "  ".join(f"{name} {value:.4f}" for name, value in scores.values.items())
            step, seconds = self.position.step, self.position.seconds
            self.reporter.line(progress("validation", step=step, seconds=seconds, numbers=numbers))

    def _compare(self, scores: Scores) -> None:
        position = self.position
        if is_better(scores, position.best_score):
            position.best_score, position.best_step = scores.value, position.step
            position.n_worse = 0
            if self.config.loop.select == "best":
                self.best = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        else:
            position.n_worse += 1


def _processes(n: int) -> str:
    return progress("one process") if n == 1 else progress("several processes", n=n)

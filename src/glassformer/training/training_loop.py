"""The training loop: steps, evaluation, checkpoints, and interruptions that lose nothing.

`Trainer.run` is the loop. Everything that a step depends on goes into the checkpoint, so a killed
run resumes as if it had not been interrupted. This module knows neither the data set nor the model;
what makes steps faster is plugged in as the learner (`training.acceleration`).
"""

import math
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.data.loader import Loader, StepBatches
from glassformer.errors import Fragment, TrainingError
from glassformer.training.acceleration import choose_acceleration, make_learner
from glassformer.training.evaluation import Evaluator, Scores, is_better
from glassformer.training.log import Reporter, say
from glassformer.training.optimiser import EMA, Optimiser, learning_rate_share
from glassformer.training.problems.prepared_problem import PreparedProblem
from glassformer.training.processes import Interruption, Processes, fill, gather_all, shard_like
from glassformer.training.resume import (
    Progress,
    TrainingState,
    capture_rng,
    check_seed,
    newest_state,
    resume_rng,
    save_state,
)
from glassformer.training.run_config import RunConfig
from glassformer.training.run_folder import RunFolder
from glassformer.training.snapshots import Watch


@dataclass
class Tally:
    """Sums since the last log line, kept on the device, so that no step waits for them."""

    sums: Tensor
    """Loss, number of labels and gradient norm."""
    n_tokens: int = 0
    n_steps: int = 0
    since: float = field(default_factory=time.perf_counter)

    def add(self, step: StepBatches, loss: Tensor, norm: Tensor) -> None:
        self.sums[0] += loss
        self.sums[1] += sum(batch.n_scored for batch in step.batches)
        self.sums[2] += norm
        self.n_tokens += sum(batch.n_tokens for batch in step.batches)
        self.n_steps += 1


class Trainer:
    """Trains one model; `run` returns when training is complete, or raises after saving."""

    def __init__(
        self,
        config: RunConfig,
        problem: PreparedProblem,
        model: nn.Module,
        *,
        folder: RunFolder,
        device: torch.device,
        processes: Processes,
        reporter: Reporter,
    ) -> None:
        self.config, self.problem, self.folder = config, problem, folder
        self.device, self.processes, self.reporter = device, processes, reporter
        self.model = model.to(device)
        self.best: dict[str, Tensor] = {}
        self.progress = Progress()
        self.started = time.perf_counter()
        order = problem.order(config.data, config.loop.seed)
        self.total, self.evaluate_every = config.loop.n_steps(order.n_batches)
        self.save_every = config.loop.save_every or self.evaluate_every
        acceleration = choose_acceleration(
            config, device, n_shapes=order.n_shapes, n_steps=self.total, alone=processes.n == 1
        )
        self.learner = make_learner(
            config, model, problem.measure, acceleration, device=device, processes=processes
        )
        self.optimiser = Optimiser(
            model, config.optimiser, keeps_gradients=self.learner.keeps_gradients
        )
        self.ema = EMA(model, config.loop.ema) if config.loop.ema else None
        self.loader = Loader(
            problem.train,
            order,
            config.loop.accumulate,
            processes.rank,
            processes.n,
            self.learner.fixed_shapes,
        )
        self.evaluator = Evaluator(
            problem,
            device,
            processes,
            self.learner.precision,
            max_tokens=config.data.max_tokens or 16_384,
        )
        self.watch = (
            Watch(folder.path, problem, config.recipe, self.total, writes=processes.is_first)
            if config.loop.watch
            else None
        )

    def run(self, interruption: Interruption) -> None:
        """Take all remaining steps, or stop at an interruption."""
        progress, learner, optimiser = self.progress, self.learner, self.optimiser
        self.model.train()
        self._begin()
        tally = self._new_tally()
        for step in self.loader.steps(progress.step, self._end()):
            scale = 1 / learner.count_labels(step)  # the loss is a mean over all labels
            loss = torch.zeros((), device=self.device)
            for batch in step.batches:  # more than one: gradient accumulation
                is_last = batch is step.batches[-1]
                loss += learner.forward_backward(batch.to(self.device), scale, is_last=is_last)
            learner.exchange_gradients()
            norm = optimiser.clip()
            optimiser.step(learning_rate_share(self.config.schedule, progress.step, self.total))
            optimiser.zero_grad()
            progress.step += 1
            if self.ema:
                self.ema.update(progress.step)
            tally.add(step, loss, norm)
            if self.device.type == "cpu":  # elsewhere, the check would wait for the device
                self._check_finite(tally)
            self.reporter.tick(progress.step)

            stop = self.processes.any(interruption.asked, self.device)
            evaluates, saves = self._is_due(self.evaluate_every), self._is_due(self.save_every)
            if evaluates or saves or stop or progress.step % self.config.loop.log_every == 0:
                self._report(tally, step.epoch)
                if evaluates:
                    self._evaluate()
                if saves or stop:
                    self.save()
                tally = self._new_tally()
            if stop:
                raise KeyboardInterrupt
            if self._is_out_of_patience():
                self.reporter.line(say("stopped", n=progress.n_worse))
                if not saves:
                    self.save()
                break

    @property
    def kept_step(self) -> int:
        """The step whose weights are kept."""
        is_best = self.best and self.config.loop.select == "best"
        return self.progress.best_step if is_best else self.progress.step

    @property
    def total_seconds(self) -> float:
        """Since the run began, without the pauses before it was resumed."""
        return self.progress.total_seconds + time.perf_counter() - self.started

    def final_model(self) -> nn.Module:
        """The model with the weights to keep: best by validation, or last (its EMA, if set)."""
        if self.best and self.config.loop.select == "best":
            fill(self.model, self.best)
        elif self.ema:
            fill(self.model, self.ema.tensors())
        return self.learner.whole_model()

    def save(self) -> None:
        """Write a checkpoint to resume from."""
        sections: dict[str, dict[str, Tensor]] = {
            "model": gather_all(dict(self.model.named_parameters())),
            "optimiser": gather_all(self.optimiser.tensors()),
            "average": gather_all(self.ema.tensors() if self.ema else {}),
            "best": gather_all(self.best),
        }
        generators = self.processes.gather([capture_rng(self.device)])
        if self.processes.is_first:
            for rank, (captured, _) in enumerate(generators):
                sections[f"random.{rank}"] = captured
            tensors = {
                f"{section}.{name}": tensor
                for section, named in sections.items()
                for name, tensor in named.items()
            }
            facts: dict[str, Any] = {
                "position": vars(self.progress) | {"total_seconds": self.total_seconds},
                "random": [facts for _, facts in generators],
                "data": self.problem.identity,
                "config": asdict(self.config),
            }
            state = TrainingState(self.progress.step, tensors, facts)
            save_state(self.folder.states, state, self.config.loop.keep)
        self.processes.wait()

    def resume(self) -> bool:
        """Load the newest undamaged checkpoint; False if there is none."""
        state = newest_state(self.folder.states, self.reporter.line)
        if state is None:
            self._rewind(0)
            return False
        self.problem.check_identity(state.facts.get("data", {}))
        check_seed(state, self.config.loop.seed, self.folder.states)
        fill(self.model, state.section("model"))
        self.optimiser.load(state.section("optimiser"))
        if self.ema:  # a newly enabled EMA starts from the current weights
            self.ema.load(state.section("average") or state.section("model"))
        parameters = dict(self.model.named_parameters())
        self.best = {
            name: shard_like(tensor.to(self.device), parameters[name])
            for name, tensor in state.section("best").items()
        }
        self.progress = Progress(**state.facts["position"])
        if self.config.loop.select == "best" and not self.best:  # not kept until now
            self.progress.forget_best()
        resume_rng(state, self.config.loop.seed, self.processes, self.device, self.reporter.line)
        self._rewind(state.step)
        return True

    def _begin(self) -> None:
        if self.watch and self.progress.step == 0:  # the untrained model, to compare with
            self.watch.take(self.learner.whole_model(), 0)
        self.reporter.start(self.progress.step, self.total)

    def _end(self) -> int:
        """The last step; a resumed run that is already out of patience takes no more."""
        return self.progress.step if self._is_out_of_patience() else self.total

    def _is_due(self, every: int) -> bool:
        return self.progress.step == self.total or self.progress.step % every == 0

    def _is_out_of_patience(self) -> bool:
        patience = self.config.loop.patience
        return patience is not None and self.progress.n_worse >= patience

    def _rewind(self, step: int) -> None:
        """Discard logs from after `step`: the run will write them again."""
        if self.processes.is_first:
            self.folder.rewind(step)
            if self.watch:
                self.watch.rewind(step)

    def _new_tally(self) -> Tally:
        return Tally(torch.zeros(3, device=self.device))

    def _check_finite(self, tally: Tally) -> None:
        nll, _, norm = tally.sums.tolist()
        if not (math.isfinite(nll) and math.isfinite(norm)):
            raise self._diverged("the loss or its gradient")

    def _diverged(self, what: str) -> TrainingError:
        states = self.folder.states
        kept = (
            Fragment.of("the last good checkpoint is in {states}", states=states)
            if states.is_dir()
            else Fragment.of("no checkpoint was saved")
        )
        return TrainingError(
            "{what} is not a number at step {step}; {kept}. Try a lower optimiser.lr, a longer "
            "schedule.warmup or optimiser.clip",
            what=what,
            step=self.progress.step,
            kept=kept,
        )

    def _report(self, tally: Tally, epoch: int) -> None:
        """Log the sums since the last line; waits for the device."""
        self._check_finite(tally)
        mine = [*tally.sums.tolist(), tally.n_tokens]
        loss, n_labels, norm, n_tokens = self.processes.totals(mine, self.device)
        seconds = time.perf_counter() - tally.since
        progress = self.progress
        progress.n_tokens += int(n_tokens)
        progress.seconds += seconds
        share = learning_rate_share(self.config.schedule, progress.step - 1, self.total)
        record = {
            "step": progress.step,
            "epoch": epoch,
            "loss": loss / max(1.0, n_labels),
            "grad_norm": norm / (tally.n_steps * self.processes.n),
            "lr": self.config.optimiser.lr * share,
            "tokens_per_s": n_tokens / seconds,
            "n_tokens": progress.n_tokens,
            "train_seconds": progress.seconds,
        }
        if self.processes.is_first:
            self.folder.log(record)
            shown = {name: record[name] for name in ("loss", "tokens_per_s")}
            if progress.best_score is not None:
                shown["best"] = progress.best_score
            self.reporter.step(progress.step, shown)

    def _evaluate(self) -> None:
        """Score on validation data; keep the weights if they are the best so far."""
        started = time.perf_counter()
        with self.ema.in_place() if self.ema else nullcontext():
            model = self.learner.whole_model()
            if self.watch:
                self.watch.take(model, self.progress.step)
            if self.problem.valid is None:
                return
            scores = self.evaluator(model, self.problem.valid)
            # The loss of the last step was computed with the weights before it.
            if not math.isfinite(scores.value):
                raise self._diverged(Fragment.of("the {name} on validation data", name=scores.main))
            self._keep_if_best(scores)
        if self.processes.is_first:
            record = {f"valid_{name}": value for name, value in scores.values.items()}
            seconds = time.perf_counter() - started
            self.folder.log({"step": self.progress.step, **record, "evaluation_seconds": seconds})
            numbers = "  ".join(f"{name} {value:.4f}" for name, value in scores.values.items())
            step, seconds = self.progress.step, self.progress.seconds
            self.reporter.line(say("validation", step=step, seconds=seconds, numbers=numbers))

    def _keep_if_best(self, scores: Scores) -> None:
        progress = self.progress
        if is_better(scores, progress.best_score, progress.best_loss):
            progress.best_score, progress.best_loss = scores.value, scores.values.get("loss")
            progress.best_step = progress.step
            progress.n_worse = 0
            if self.config.loop.select == "best":
                self.best = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        else:
            progress.n_worse += 1

"""The campaign: thousands of ways to fail, and the outcome of each.

    python -m tests.campaign [SECTION …] [--share 0.1] [--seed 1] [--jobs 2]  (or: make campaign)

A case fails if it ends in a traceback, by a signal, not in time, with more than 1 GiB, or with
another answer than the right one. The table comes last; the exit code is 1 if anything failed.
`--share` runs a part of each section, `--seed` draws other cases, `--jobs` runs as many sections
beside one another.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch

from glassformer.data import corpora
from glassformer.errors import GlassformerError
from tests.campaign.hostile_answers import hostile_answers
from tests.campaign.hostile_folders import hostile_folders
from tests.campaign.hostile_hugging_face import EXECUTED, hostile_hugging_face
from tests.campaign.hostile_images import hostile_images
from tests.campaign.hostile_requests import hostile_requests, refusal_of
from tests.campaign.hostile_runs import hostile_runs, wrong_with_run
from tests.campaign.sandbox import Ended, command, forked
from tests.campaign.strangers import bad_calls, bad_commands, hostile_examples, hostile_files
from tests.training.made import make_data, registered, tiny
from tests.training.runs import assert_same_bits
from tests.training.test_resume import kill_and_resume

REFUSED = 3
RECIPES = ("imdb", "multi30k", "shakespeare", "movielens", "imdb-pretrain", "multi30k-rnn")


@dataclass
class Section:
    """The cases of one section."""

    name: str
    cases: int = 0
    failures: list[str] = field(default_factory=list)
    peak_mib: float = 0.0
    slowest: float = 0.0
    """CPU seconds."""

    def note(self, case: str, complaint: str, ended: Ended | None = None) -> None:
        """Count a case; an empty complaint is a success."""
        self.cases += 1
        if ended is not None:
            self.peak_mib = max(self.peak_mib, ended.peak_mib)
            self.slowest = max(self.slowest, ended.cpu_seconds)
        if complaint:
            self.failures.append(f"{case}: {complaint}")
            print(f"FAILED {self.name} {case}: {complaint}", flush=True)
        if self.cases % 50 == 0:
            print(f"{self.name}: {self.cases} cases so far", flush=True)


@dataclass(frozen=True)
class Campaign:
    """The working folder, the share of cases to run, and the seed that draws them."""

    folder: Path
    share: float
    seed: int

    def count(self, whole: int) -> int:
        return max(1, round(self.share * whole))


# --- training ---


def use_made_data(folder: Path) -> None:
    """Small corpora instead of the real ones, for this process and its children."""
    make_data(folder / "data")
    corpora.CORPORA.update(registered(folder / "data"))
    os.environ["GLASSFORMER_DATA"] = str(folder / "data")
    os.environ["GLASSFORMER_CACHE"] = str(folder / "cache")


def training_case(name: str, campaign: Campaign, **changes: object) -> Callable[[Path], int]:
    """A tiny run of a recipe, resumed if it was started."""
    from glassformer.training import train

    settings = {"loop__steps": 40, "loop__save_every": 3, "loop__evaluate_every": 20, **changes}
    config = tiny(name, **settings)

    def run(folder: Path) -> int:
        try:
            train(config, folder, resume=True)
        except GlassformerError as error:
            print(f"glassformer: {error}", file=sys.stderr)
            return REFUSED
        return 0

    return run


def kills(campaign: Campaign, section: Section) -> None:
    """SIGKILL at a random moment, then `--resume`: the same bits as an uninterrupted run."""
    rng = random.Random(campaign.seed)
    per_recipe = campaign.count(17)
    for name in RECIPES:
        run = training_case(name, campaign)
        whole = campaign.folder / f"{name}-whole"
        began = time.monotonic()
        ended = forked(lambda run=run, whole=whole: run(whole), 600)  # type: ignore[misc]
        seconds = time.monotonic() - began
        if ended.code != 0:
            section.note(f"{name} whole", ended.complaint or ended.err[-300:], ended)
            continue
        done = 0
        for _ in range(10 * per_recipe):
            folder = campaign.folder / f"{name}-killed"
            shutil.rmtree(folder, ignore_errors=True)
            began = time.monotonic()
            killed = forked(lambda run=run, f=folder: run(f), rng.uniform(0.02, 0.95) * seconds)  # type: ignore[misc]
            if not killed.timed_out:
                seconds = time.monotonic() - began  # the machine is less busy now
                continue
            done += 1
            ended = forked(lambda run=run, f=folder: run(f), 600)  # type: ignore[misc]
            section.note(f"{name} kill {done}", _same(ended, whole, folder), ended)
            if done == per_recipe:
                break
        else:
            section.note(name, f"only {done} of {per_recipe} kills came before the end")


def workers(campaign: Campaign, section: Section) -> None:
    """Two processes with dropout, killed together at random moments and resumed."""
    for at in range(campaign.count(20)):
        folder = campaign.folder / f"workers{at}"
        folder.mkdir()
        try:
            kill_and_resume(folder, n_kills=1, n_processes=2)
            complaint = ""
        except (AssertionError, OSError, pytest.fail.Exception) as error:
            complaint = f"{type(error).__name__}: {error}"
        section.note(f"kill {at} of two workers", complaint)
        shutil.rmtree(folder)


def _same(ended: Ended, whole: Path, folder: Path) -> str:
    if ended.complaint or ended.code != 0:
        return ended.complaint or f"exit {ended.code}: {ended.err.strip()[-300:]}"
    try:
        assert_same_bits(whole, folder)
    except (AssertionError, OSError) as error:
        return f"other weights: {error}"
    return ""


def damage(campaign: Campaign, section: Section) -> None:
    """Bits flipped in and bytes cut from every file of a run and of a model folder."""
    rng = random.Random(campaign.seed)
    # Of the states 6, 9 and 12 the last is taken away: damage to one leaves another.
    run = training_case("shakespeare", campaign, loop__steps=12, loop__keep=3)
    whole = campaign.folder / "damage-whole"
    ended = forked(lambda: run(whole), 600)
    if ended.code != 0:
        section.note("whole", ended.complaint or ended.err[-300:], ended)
        return
    part = campaign.folder / "damage-part"
    shutil.copytree(whole, part)
    for file in part.glob("state/00000012*"):
        file.unlink()
    shutil.rmtree(part / "model")
    for file in sorted(path.relative_to(part) for path in part.rglob("*") if path.is_file()):
        for at in range(campaign.count(8)):
            folder = campaign.folder / "damaged"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(part, folder)
            how = _damaged(folder / file, rng, at)
            ended = forked(lambda f=folder: run(f), 300)  # type: ignore[misc]
            # An unreadable config may stop a run; damage beside good checkpoints must not.
            refused = ended.code == REFUSED and file.name == "config.json"
            section.note(f"{file} {how}", "" if refused else _same(ended, whole, folder), ended)
    model = campaign.folder / "damaged-model"
    for file in sorted((whole / "model").iterdir()):
        for at in range(campaign.count(12)):
            shutil.rmtree(model, ignore_errors=True)
            shutil.copytree(whole / "model", model)
            how = _damaged(model / file.name, rng, at)
            ended = command("run", str(model), "the dog", "--max-new", "5")
            section.note(f"model {file.name} {how}", ended.refusal_complaint, ended)
    stored = campaign.folder / "sweep.jsonl"
    sweep = ("experiment", "sweep", "toy", "I am not happy", "--store", str(stored))
    section.note("sweep", command(*sweep).refusal_complaint)
    good = stored.read_bytes()
    for at in range(campaign.count(24)):
        stored.write_bytes(good)
        how = _damaged(stored, rng, at)
        ended = command(*sweep)
        section.note(f"sweep {how}", ended.refusal_complaint, ended)


def _damaged(file: Path, rng: random.Random, at: int) -> str:
    """One kind of damage after another."""
    data = bytearray(file.read_bytes())
    way = at % 5
    if way == 0 or not data:
        file.write_bytes(bytes(data[: len(data) // 2]))
        return "cut in half"
    if way == 1:
        file.write_bytes(b"")
        return "emptied"
    if way == 2:
        place = rng.randrange(min(64, len(data)))
    elif way == 3:
        place = rng.randrange(len(data))
    else:
        file.unlink()
        return "removed"
    data[place] ^= 1 << rng.randrange(8)
    file.write_bytes(bytes(data))
    return f"bit of byte {place} flipped"


# --- untrusted files ---


def folders(campaign: Campaign, section: Section) -> None:
    for name, folder in hostile_folders(campaign.folder, campaign.count(300), campaign.seed):
        ended = command("run", str(folder), "x" * 200 + " I am not happy", "--max-new", "5")
        section.note(name, ended.refusal_complaint, ended)


def foreign_folders(campaign: Campaign, section: Section) -> None:
    """Folders of Hugging Face; none of their code may run."""
    for case in hostile_hugging_face(campaign.folder, campaign.count(600), campaign.seed):
        ended = command("run", str(case.folder), case.text, "--max-new", "5")
        executed = "executed" if (case.folder / EXECUTED).exists() else ""
        section.note(case.name, executed or ended.refusal_complaint, ended)


def images(campaign: Campaign, section: Section) -> None:
    """Image files for a classifier of images."""
    from tests.tasks.foreign_folders import FOLDERS

    model = str(FOLDERS["vit"].write(campaign.folder / "vit"))
    for name, file in hostile_images(campaign.folder, campaign.count(150), campaign.seed):
        ended = command("run", model, str(file))
        section.note(name, ended.refusal_complaint, ended)


def answers(campaign: Campaign, section: Section) -> None:
    """A learner's files. They are run, in a process of their own, which may take more than ours."""
    os.environ["GLASSFORMER_CACHE"] = str(campaign.folder / "cache")
    for name, file in hostile_answers(campaign.folder, campaign.count(100)):
        ended = command("exercise", "scores", str(file), "--json", most_seconds=120)
        checked = ended.code in (0, 1) and ended.out.count("\n") == 1  # the feedback, as JSON
        complaint = "" if checked and not ended.timed_out else ended.refusal_complaint
        section.note(name, complaint, ended)


def examples(campaign: Campaign, section: Section) -> None:
    for name, file in hostile_examples(campaign.folder, campaign.count(300), campaign.seed):
        ended = command("audit", str(file))
        complaint = ended.complaint if ended.code in (0, 1) else ended.refusal_complaint
        section.note(name, complaint, ended)


def commands(campaign: Campaign, section: Section) -> None:
    here = Path.cwd()
    os.chdir(campaign.folder)
    try:
        for line in bad_commands(campaign.count(400), campaign.seed):
            ended = command(*line)
            section.note(" ".join(line)[:120], ended.refusal_complaint, ended)
    finally:
        os.chdir(here)


def single_files(campaign: Campaign, section: Section) -> None:
    """Single-file checkpoints of other programs, each loaded or refused in one line."""
    for name, load, file in hostile_files(campaign.folder, campaign.count(200), campaign.seed):
        ended = forked(lambda load=load, file=file: _refused(lambda: load(file), True))  # type: ignore[misc]
        section.note(name, ended.complaint or ("" if ended.code == 0 else ended.err[-200:]), ended)


def calls(campaign: Campaign, section: Section) -> None:
    """A valid call gives a result, any other is refused: neither may be mistaken for the other."""
    found = list(bad_calls(campaign.folder))
    for name, call, makes_sense in found[: campaign.count(len(found))]:
        ended = forked(lambda call=call, ok=makes_sense: _refused(call, ok))  # type: ignore[misc]
        section.note(name, ended.complaint or ("" if ended.code == 0 else ended.err[-200:]), ended)


def requests(campaign: Campaign, section: Section) -> None:
    """Requests to the explorer, each to a server of its own."""
    for name, asked, is_good in hostile_requests(campaign.count(500), campaign.seed):
        ended = forked(lambda a=asked, g=is_good: _without(refusal_of(a, g)), 120)  # type: ignore[misc]
        section.note(name, ended.complaint or ("" if ended.code == 0 else ended.err[-300:]), ended)


def runs(campaign: Campaign, section: Section) -> None:
    """Folders of training runs, each looked at on the page."""
    whole = campaign.folder / "whole"
    run = training_case(
        "multi30k", campaign, loop__steps=4, loop__evaluate_every=2, loop__watch=True
    )
    assert forked(lambda: run(whole), 600).code == 0
    for name, folder in hostile_runs(whole, campaign.folder, campaign.count(200), campaign.seed):
        ended = forked(lambda folder=folder: _without(wrong_with_run(folder)), 120)  # type: ignore[misc]
        section.note(name, ended.complaint or ("" if ended.code == 0 else ended.err[-300:]), ended)


def _without(wrong: str) -> int:
    """The exit code of a case in which nothing should be wrong."""
    print(wrong, file=sys.stderr)
    return 1 if wrong else 0


def _refused(call: Callable[[], object], may_answer: bool) -> int:
    """0 if a call ends as it should: with a result if it is valid, else with one line of ours."""
    try:
        call()
    except GlassformerError as error:
        message = str(error)
        if message and "\n" not in message:
            return 0
        print(f"not one line: {message!r}", file=sys.stderr)
        return 4
    if not may_answer:
        print("answered", file=sys.stderr)
    return 0 if may_answer else 5


# --- the server: each check is a script with its own exit code ---


def traces(campaign: Campaign, section: Section) -> None:
    """Traces of changing models with edits: memory and open files stay flat, answers are right."""
    _script(section, "benchmarks.explorer_load", "--traces", str(campaign.count(2_000)))


def load(campaign: Campaign, section: Section) -> None:
    """50 clients at once, two tabs on one trace among them."""
    seconds = max(5, round(240 * campaign.share))  # its caches are full after two minutes
    _script(section, "benchmarks.explorer_load", "--clients", "50", "--seconds", str(seconds))


def slow_clients(campaign: Campaign, section: Section) -> None:
    """Half-sent requests, few open files, Ctrl-C."""
    _script(section, "benchmarks.explorer_slow_clients")


def _script(section: Section, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, check=False
    )
    print(done.stdout, flush=True)
    complaint = "" if done.returncode == 0 else (done.stdout + done.stderr).strip()[-500:]
    section.note(" ".join(arguments), complaint)


KNOWN: dict[str, Callable[[Campaign, Section], None]] = {
    section.__name__: section
    for section in (
        kills, workers, damage, folders, foreign_folders, images, single_files, answers,
        examples, commands, calls, requests, runs, traces, load, slow_clients,
    )
}  # fmt: skip


def run(name: str, share: float, seed: int) -> tuple[Section, float]:
    """A section, in a folder of its own, and the seconds that it took."""
    torch.set_num_threads(1)
    section, began = Section(name), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder), share, seed)
        use_made_data(campaign.folder)
        KNOWN[name](campaign, section)
    print(f"{name}: {section.cases} cases, {len(section.failures)} failures", flush=True)
    return section, time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help="all if none is named")
    parser.add_argument("--share", type=float, default=1.0, help="of each section's cases")
    parser.add_argument("--seed", type=int, default=0, help="of the draw of cases")
    parser.add_argument("--jobs", type=int, default=1, help="sections at once")
    options = parser.parse_args()
    if unknown := set(options.sections) - set(KNOWN):
        parser.error(f"unknown sections {sorted(unknown)}; there are {', '.join(KNOWN)}")
    fork = multiprocessing.get_context("fork")  # torch is imported
    with ProcessPoolExecutor(options.jobs, mp_context=fork) as pool:
        done = list(
            pool.map(run, options.sections or KNOWN, repeat(options.share), repeat(options.seed))
        )
    print(
        f"\n{'section':<12}{'cases':>7}{'failures':>10}{'peak MiB':>10}{'slowest':>9}{'minutes':>9}"
    )
    for section, seconds in done:
        print(
            f"{section.name:<12}{section.cases:>7}{len(section.failures):>10}"
            f"{section.peak_mib:>10.0f}{section.slowest:>8.1f}s{seconds / 60:>9.1f}"
        )
    return 1 if any(section.failures for section, _ in done) else 0


if __name__ == "__main__":
    sys.exit(main())

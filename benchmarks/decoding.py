"""Translating with a beam of 4: ours, Hugging Face generate and CTranslate2, the same weights.

    python benchmarks/decoding.py [--model DIR --sentences FILE] [--threads 2] [--rounds 3]
    python benchmarks/decoding.py --device cuda [--base]         Hugging Face with its static cache
        [--precision bfloat16] [--batch-sizes 1024 2048] [--compiled default reduce-overhead]
    python benchmarks/decoding.py --lengths                       only the cost of longer outputs

Every engine translates the same sentences in one run, sorted by length, at each batch size; its
best counts. Rounds alternate between engines, so that a busy machine slows all of them alike.
Without a model, weights are random and every output has a forced length: the speed is that of a
trained model, the text is noise. On a GPU, CTranslate2 is left out, batches are larger, and
`--base` takes the model of the 2017 paper's size. On a CPU ours gives each core a batch of its own;
CTranslate2 does, too, and Hugging Face is measured both ways. The last lines are the ratios.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint
from glassformer.decoding import Beam, translate
from glassformer.decoding.fast.workers import side_by_side
from glassformer.export import ctranslate2 as to_ctranslate2
from glassformer.export.hugging_face_export import hugging_face_config, hugging_face_state
from glassformer.nn import Seq2Seq, build, presets
from glassformer.text import SpecialTokens, WordTokenizer

BATCH_SIZES = {"cpu": (32, 64, 128), "cuda": (128, 256, 512, 1_024, 2_048)}
LENGTHS = (16, 64, 256, 1_024)
BEAM = 4

Translations = list[list[int]]


@dataclass(frozen=True)
class Task:
    """What every engine is given."""

    checkpoint: Checkpoint
    sources: list[list[int]]
    """Ids, each with its end token."""
    forced_length: int | None
    """Tokens of every output; None: it ends where the model ends it."""
    threads: int
    device: str = "cpu"
    dtype: torch.dtype = torch.float32

    @property
    def model(self) -> Seq2Seq:
        assert isinstance(self.checkpoint.model, Seq2Seq)
        return self.checkpoint.model

    @property
    def special(self) -> SpecialTokens:
        assert self.checkpoint.tokenizer is not None
        return self.checkpoint.tokenizer.special

    @property
    def ends(self) -> tuple[int, int, int]:
        """The ids of padding, start and end."""
        pad, start, end = self.special.pad, self.special.start, self.special.end
        assert pad is not None and start is not None and end is not None
        return pad, start, end

    def limit(self, source: list[int]) -> int:
        return self.forced_length or len(source) + 50

    def use_threads(self) -> None:
        """Give torch its threads back: CTranslate2 sets OpenMP's number for the whole process."""
        torch.set_num_threads(self.threads)


def ours(task: Task) -> Callable[[int], Translations]:
    _, start, end = task.ends

    def run(batch_size: int) -> Translations:
        task.use_threads()
        decoded = translate(
            task.model,
            task.sources,
            start=start,
            end=None if task.forced_length else end,
            search=Beam(size=BEAM),
            max_new=task.forced_length,
            batch_size=batch_size,
        )
        return [list(one.best.tokens) for one in decoded]

    return run


def hugging_face(
    task: Task, compiled: str | None = None, n_at_once: int = 1
) -> Callable[[int], Translations]:
    """`compiled`: the mode in which torch compiles their decoder's step; beam search leaves it as
    it is unless asked, also with a static cache. `n_at_once`: batches side by side, a core each."""
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    config = hugging_face_config(task.model.config, task.special)
    theirs = AutoModelForSeq2SeqLM.from_config(AutoConfig.for_model(**config)).eval()
    theirs.load_state_dict(hugging_face_state(task.model), strict=False)
    theirs.tie_weights()
    theirs.to(task.device, task.dtype)
    if compiled is not None:
        theirs.forward = torch.compile(theirs.forward, mode=compiled)
    on_gpu = task.device != "cpu"
    pad, _, end = task.ends
    order = sorted(range(len(task.sources)), key=lambda i: -len(task.sources[i]))

    def answer(batch: list[int]) -> Translations:
        longest = max(len(task.sources[i]) for i in batch)
        ids = torch.full((len(batch), longest), pad)
        for row, i in enumerate(batch):
            ids[row, : len(task.sources[i])] = torch.tensor(task.sources[i])
        output = theirs.generate(
            input_ids=ids.to(task.device),
            attention_mask=ids.ne(pad).long().to(task.device),
            cache_implementation="static" if on_gpu else None,
            num_beams=BEAM,
            do_sample=False,
            early_stopping=True,
            eos_token_id=None if task.forced_length else end,
            max_new_tokens=task.forced_length or longest + 50,
        )
        rows: Translations = output[:, 1:].tolist()
        return rows if task.forced_length else [_until(end, row) for row in rows]

    def run(batch_size: int) -> Translations:
        task.use_threads()
        batches = [order[at : at + batch_size] for at in range(0, len(order), batch_size)]
        answers = side_by_side(answer, batches, n_at_once)
        found = {
            i: row
            for batch, rows in zip(batches, answers, strict=True)
            for i, row in zip(batch, rows, strict=True)
        }
        return [found[i] for i in range(len(order))]

    return run


def _until(end: int, row: list[int]) -> list[int]:
    return row[: row.index(end)] if end in row else row


def ctranslate2(task: Task, compute_type: str) -> Callable[[int], Translations]:
    import ctranslate2 as engine

    tokenizer = task.checkpoint.tokenizer
    assert tokenizer is not None
    with tempfile.TemporaryDirectory() as folder:
        to_ctranslate2.write(task.checkpoint, Path(folder))
        # Batches side by side, which is faster for it (as for us) than cores within a batch.
        translator = engine.Translator(
            folder, compute_type=compute_type, inter_threads=task.threads, intra_threads=1
        )
    ids = {tokenizer.token(i): i for i in range(tokenizer.vocab_size)}
    texts = [[tokenizer.token(i) for i in source[:-1]] for source in task.sources]
    longest = max(map(task.limit, task.sources))

    def run(batch_size: int) -> Translations:
        results = translator.translate_batch(
            texts,
            max_batch_size=batch_size,
            beam_size=BEAM,
            min_decoding_length=task.forced_length or 1,
            max_decoding_length=longest,
        )
        return [[ids[token] for token in result.hypotheses[0]] for result in results]

    return run


def random_task(arguments: argparse.Namespace) -> Task:
    """A model of the size that Multi30k wants (or the base size), and sentences like captions."""
    torch.manual_seed(0)
    words = [f"w{i}" for i in range(8_000)]
    tokenizer = WordTokenizer.build([" ".join(words)])
    small = {"d_model": 256, "n_heads": 4, "n_layers": 3, "d_ff": 1024}
    config = presets.vaswani_2017_base(
        vocab_size=tokenizer.vocab_size, dropout=0.0, **({} if arguments.base else small)
    ).with_(pad_id=tokenizer.special.pad)
    dtype = getattr(torch, arguments.precision)
    made = Checkpoint(build(config).eval().to(arguments.device, dtype), config, tokenizer)
    end = tokenizer.special.end
    assert end is not None
    lengths = (8 + torch.randint(0, 14, (arguments.n,))).tolist()
    sources = [[*torch.randint(10, 8_000, (n,)).tolist(), end] for n in lengths]
    return Task(made, sources, 16, arguments.threads, arguments.device, dtype)


def trained_task(arguments: argparse.Namespace) -> Task:
    loaded = checkpoint.load(checkpoint.find(arguments.model), device=arguments.device)
    assert loaded.tokenizer is not None
    texts = Path(arguments.sentences).read_text(encoding="utf-8").splitlines()
    sources = loaded.tokenizer.encode_batch(texts, end=True, max_len=loaded.config.max_len)
    dtype = getattr(torch, arguments.precision)
    loaded.model.to(dtype)
    return Task(loaded, sources, None, arguments.threads, arguments.device, dtype)


def measure(
    engines: dict[str, Callable[[int], Translations]], rounds: int, batch_sizes: tuple[int, ...]
) -> tuple[dict[str, tuple[float, int]], dict[str, Translations]]:
    """For each engine its best wall-clock time with the batch size, and its translations."""
    best: dict[str, tuple[float, int]] = {}
    said = {name: run(batch_sizes[0]) for name, run in engines.items()}  # and warm
    for _ in range(rounds):
        for batch_size in batch_sizes:
            for name, run in engines.items():
                start = time.perf_counter()
                run(batch_size)
                seconds = time.perf_counter() - start
                best[name] = min(best.get(name, (seconds, batch_size)), (seconds, batch_size))
    return best, said


def cost_per_token(task: Task) -> dict[int, float]:
    """Milliseconds a token of ours at growing output lengths: flat, if nothing is recomputed."""
    costs = {}
    for length in LENGTHS:
        run = ours(replace(task, sources=task.sources[:16], forced_length=length))
        run(16)
        taken = []
        for _ in range(2):
            start = time.perf_counter()
            run(16)  # returns lists of ids, so a GPU is done, too
            taken.append(time.perf_counter() - start)
        costs[length] = 1000 * min(taken) / (16 * length)
    return costs


def show_costs(costs: dict[int, float]) -> None:
    print("ours, ms a token:", ", ".join(f"{n} tokens {c:.2f}" for n, c in costs.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--sentences", help="one a line; with --model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--n", type=int, default=200, help="random sentences")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--batch-sizes", type=int, nargs="+", help="to try; all engines the same")
    parser.add_argument("--base", action="store_true", help="random weights of the base size")
    parser.add_argument(
        "--compiled",
        nargs="+",
        default=[],
        choices=["default", "reduce-overhead"],
        help="Hugging Face's model compiled, too (reduce-overhead: with CUDA graphs)",
    )
    parser.add_argument("--lengths", action="store_true", help="the cost of longer outputs alone")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    task = trained_task(arguments) if arguments.model else random_task(arguments)
    if arguments.lengths:
        show_costs(cost_per_token(task))
        return
    engines = {"ours": ours(task), "Hugging Face generate": hugging_face(task)}
    for mode in arguments.compiled:
        engines[f"Hugging Face, {mode}"] = hugging_face(task, mode)
    if arguments.device == "cpu":
        side = "Hugging Face, a core per batch"
        engines[side] = hugging_face(task, n_at_once=arguments.threads)
        engines["CTranslate2 float32"] = ctranslate2(task, "float32")
        engines["CTranslate2 int8"] = ctranslate2(task, "int8")
    batch_sizes = tuple(arguments.batch_sizes or BATCH_SIZES[arguments.device])
    best, said = measure(engines, arguments.rounds, batch_sizes)
    costs = cost_per_token(task)
    if arguments.json:
        print(json.dumps({"seconds": best, "ms_per_token": costs}))
        return
    for name, (seconds, batch_size) in best.items():
        same = sum(a == b for a, b in zip(said[name], said["ours"], strict=True)) / len(
            said["ours"]
        )
        print(f"{name:32} {seconds:7.2f} s  batch {batch_size:3}  same as ours {same:.1%}")
    show_costs(costs)
    for name, (seconds, _) in best.items():
        if name != "ours":
            print(f"ours is {seconds / best['ours'][0]:.2f} times as fast as {name}")


if __name__ == "__main__":
    main()

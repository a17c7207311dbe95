"""A model of the library transformers: `Model` over the foreign module as it is.

Causal and masked language models, sequence and token classifiers, encoder-decoders, sentence
encoders, image classifiers, CLIP-like pairs of a text and an image encoder. The module is called
with ids alone: batches hold texts of one length, so that nothing is padded and no mask is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.decoding import Beam, Greedy, Sampling, Search
from glassformer.decoding.fast import in_batches
from glassformer.errors import (
    CheckpointError,
    ConfigError,
    GlassformerError,
    InputError,
    is_out_of_memory,
)
from glassformer.modes import evaluating
from glassformer.nn.config import places_of_patches
from glassformer.tasks.answers import Alternative, Task
from glassformer.tasks.foreign_tokenizer import HuggingFaceTokenizer, as_tokenizer
from glassformer.tasks.forward_pass import Pass, Read, vocabulary_labels, vocabulary_words
from glassformer.tasks.hugging_face_folder import POOLINGS, OpenedFolder, quietly
from glassformer.tasks.images import read_image
from glassformer.tasks.model import HALF_CHARACTER, Model, Written

# By suffixes of class names, which are the same for all architectures in transformers.
_HEADS: tuple[tuple[str, tuple[Task, ...], str], ...] = (
    ("ForSequenceClassification", ("classify", "embed"), "a classifier"),
    ("ForTokenClassification", ("tag", "embed"), "a token classifier"),
    ("ForImageClassification", ("classify",), "an image classifier"),
    ("ForImageClassificationWithTeacher", ("classify",), "an image classifier"),
    ("ForMaskedLM", ("fill", "embed"), "a masked language model"),
    ("WithLMHeadModel", ("fill", "embed"), "a masked language model"),
)
_IMAGE = "image:"
_MOST_SIDE = 4096  # pixels of an image as a module reads it
_MORE_THAN_SOURCE = 50  # tokens of a translation, unless asked otherwise


class HuggingFaceModel(Model):
    """A module of transformers with its tokenizer or image processor, ready for use."""

    def __init__(
        self, opened: OpenedFolder, name: str = "this model", tokenizer: Any = None
    ) -> None:
        self.name = name
        self.module: Any = opened.module
        self._config: Any = opened.module.config
        self._processor = opened.processor
        self._pooling = opened.pooling
        self._has_images = self.module.main_input_name == "pixel_values"
        self.tokenizer = as_tokenizer(
            opened.tokenizer if tokenizer is None else tokenizer, self._vocab_size
        )
        self.tasks, self.kind = self._purpose()
        names = getattr(self._config, "id2label", None) or {}
        if self.tasks[:1] in (("classify",), ("tag",)):
            self.labels = tuple(str(names[number]) for number in sorted(names))

    def _purpose(self) -> tuple[tuple[Task, ...], str]:
        """What the module is for, by its head."""
        module, name = self.module, type(self.module).__name__
        for ending, tasks, kind in _HEADS:
            if name.endswith(ending):
                if tasks[0] == "classify" and self._config.num_labels == 1:
                    return ("score", "embed"), "a regressor"
                if tasks[0] == "fill" and (
                    self.tokenizer is None or self.tokenizer.special.mask is None
                ):
                    return ("embed",), kind
                return tasks, kind
        if self._is_pair:
            return ("embed",), "a pair of a text and an image encoder"
        if module.main_input_name not in ("input_ids", "pixel_values"):
            raise InputError(
                "{name} is a {kind}, which reads {inputs}: expected a model of texts or images",
                name=self.name,
                kind=name,
                inputs=module.main_input_name,
            )
        if module.can_generate():
            if self._config.is_encoder_decoder:
                return ("translate",), "an encoder-decoder"
            return ("generate",), "a language model"
        if "For" in name:
            return (), f"a {name}"
        return ("embed",), "an encoder"

    @property
    def _is_pair(self) -> bool:
        return hasattr(self.module, "get_text_features") and hasattr(
            self.module, "get_image_features"
        )

    @property
    def _vocab_size(self) -> int | None:
        text = self._config.get_text_config()
        size = getattr(text, "vocab_size", None)
        return size if isinstance(size, int) else None

    @cached_property
    def max_tokens(self) -> int | None:
        found = []
        for name, part in self._text_module.named_modules():
            if "position" in name and isinstance(part, nn.Embedding):
                # RoBERTa and its kin count positions from the padding id on.
                offset = 0 if part.padding_idx is None else part.padding_idx + 1
                offset = max(offset, int(getattr(part, "offset", 0)))
                found.append(part.num_embeddings - offset)
        text = self._config.get_text_config()
        for key in ("max_position_embeddings", "n_positions", "max_sequence_length", "n_ctx"):
            size = getattr(text, key, None)
            if isinstance(size, int) and size > 0 and not self._relative:
                found.append(size)
        library = getattr(self.tokenizer, "library", None)
        own = getattr(library, "model_max_length", None)
        if isinstance(own, int) and own < 10**9:  # some write 10³⁰ for "no limit"
            found.append(own)
        return min(found, default=None)

    @property
    def _relative(self) -> bool:
        """Whether positions are relative, so that there is no table to run out of."""
        return hasattr(self._config, "relative_attention_num_buckets")

    # --- reading ---

    def read(self, texts: Sequence[str]) -> list[Read]:
        return [self._read(text) for text in texts]

    def _read(self, text: str) -> Read:
        if (source := self.image_of(text)) is not None:
            return Read(text, [], empty=not source.strip(), image=source)
        tokenizer = self.reader
        if not isinstance(tokenizer, HuggingFaceTokenizer):
            every = tokenizer.encode(text)
            ids = every[: self.max_tokens]
            cut = len(ids) < len(every)
        else:
            ids, cut = tokenizer.read(text, self.max_tokens)
        words = [id_ for id_ in ids if id_ not in tokenizer.special.silent]
        if not words or not text.strip():
            return Read(text, [], empty=True)
        return Read(text, ids, cut, unknown=set(words) == {tokenizer.special.unknown})

    def _ids_of(self, text: str) -> list[int]:
        ids = self.reader.encode(text)
        return ids if text.strip() else []

    def _target_ids(self, target: str) -> list[int]:
        tokenizer = self.reader
        if isinstance(tokenizer, HuggingFaceTokenizer):
            return tokenizer.target_ids(target)
        return tokenizer.encode(target)

    def _greedy(self, source: Sequence[int]) -> Sequence[int]:
        return self._generated(source, Greedy(), None)[0].ids

    def image_of(self, text: str) -> str | None:
        if self._has_images:
            return text
        if self._is_pair and text.startswith(_IMAGE):
            return text.removeprefix(_IMAGE)
        return None

    def pass_over(self, ids: Sequence[int], target: Sequence[int] = ()) -> Pass:
        tokens = self.reader.display_tokens
        inputs: dict[str, list[int]] = {"input_ids": list(ids)}
        if self.tasks[:1] == ("translate",):
            inputs["decoder_input_ids"] = [self._start, *target]
        tensors = {name: self._tensor(read) for name, read in inputs.items()}
        labels = {name: tokens(read) for name, read in inputs.items() if len(read) > 1}
        module, keywords = self._text_module, self._switches | tensors
        last = tuple(inputs[list(inputs)[-1]])
        return Pass(module, keywords=keywords, labels=labels | self._output_labels, ids=last)

    def _image_pass(self, source: str) -> Pass:
        labels = {"logits": list(self.labels)} if len(self.labels) > 1 else {}
        module = self.module.vision_model if self._is_pair else self.module
        pixels = self._pixels(source)
        labels |= _patch_labels(module, pixels)
        return Pass(module, keywords={"pixel_values": pixels}, labels=labels)

    @property
    def _text_module(self) -> Any:
        """The module that reads text: of a CLIP-like pair, the text encoder."""
        if self._is_pair:
            return self.module.text_model
        if self.tasks == ("embed",) and self._config.is_encoder_decoder:
            return self.module.get_encoder()
        return self.module

    @property
    def _switches(self) -> dict[str, Any]:
        """No cache: a pass over a whole text needs none."""
        return {"use_cache": False} if self.module.can_generate() else {}

    @cached_property
    def _output_labels(self) -> dict[str, list[str]]:
        """The vocabulary on the rows of the token table and on logits; class names on scores."""
        labels: dict[str, list[str]] = {}
        module = self._text_module
        table = getattr(module.get_input_embeddings(), "weight", None)
        if isinstance(table, nn.Parameter):
            labels |= vocabulary_labels(module, table, self.reader)
        if self.tasks[:1] in (("generate",), ("translate",), ("fill",)):
            output = module.get_output_embeddings()
            size = len(output.weight) if output is not None else self._vocab_size
            labels["logits"] = vocabulary_words(self.reader, size or 0)
        elif self.labels:
            labels["logits"] = list(self.labels)
        return {name: texts for name, texts in labels.items() if len(texts) > 1}

    @property
    def _start(self) -> int:
        """The first token of a target."""
        for config in (self.module.generation_config, self._config):
            for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
                if isinstance(id_ := getattr(config, name, None), int):
                    return id_
        raise ConfigError(
            "{name} cannot translate: its vocabulary has no start token", name=self.name
        )

    def _tensor(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor([list(ids)], device=self.module.device)

    def _pixels(self, source: str) -> Tensor:
        """An image file as the module reads it (1, C, Y, X)."""
        if self._processor is None:
            raise InputError(
                "{name} has no preprocessor_config.json, so it cannot read an image file",
                name=self.name,
            )
        with read_image(source) as image, self._foreign(source):
            self._check_scaled(image.width, image.height)
            pixels = self._processor(images=image, return_tensors="pt")["pixel_values"]
        return pixels.to(self.module.device, self.module.dtype)  # type: ignore[no-any-return]

    def _check_scaled(self, width: int, height: int) -> None:
        """Refuse too large an image: the folder decides the size that images are scaled to."""
        for name in ("size", "crop_size", "pad_size"):
            size = getattr(self._processor, name, None) or {}
            sides = size if isinstance(size, Mapping) else getattr(size, "__dict__", {"": size})
            given = {side: found for side, found in sides.items() if isinstance(found, int)}
            longest = max(given.values(), default=0)
            if "shortest_edge" in given and "longest_edge" not in given:  # keeps proportions
                shorter, longer = sorted((width, height))
                longest = max(longest, given["shortest_edge"] * longer // max(1, shorter))
            if longest > _MOST_SIDE:
                raise InputError(
                    "the image would be scaled to {side:,} pixels ({name} in {file}), more than "
                    "{most:,}",
                    side=longest,
                    name=name,
                    file="preprocessor_config.json",
                    most=_MOST_SIDE,
                )

    @contextmanager
    def _foreign(self, image: str | None = None) -> Iterator[None]:
        """Turn any error of the library into one line: an image of another size, a clash.

        Configs are checked before a module is built, but only a run shows whether they make sense.
        """
        try:
            yield
        except GlassformerError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise  # no fault of the folder
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            if image is not None:
                raise InputError(
                    "{name} cannot read the image {source}: {reason}",
                    name=self.name,
                    source=image,
                    reason=reason,
                ) from None
            raise CheckpointError(
                "{name} cannot be run by transformers: {reason}", name=self.name, reason=reason
            ) from None

    def _seen(self, source: str | None) -> Any:
        """The module's output for an image file."""
        assert source is not None
        pixels = self._pixels(source)
        with self._foreign(source):
            return self.module(pixel_values=pixels)

    # --- answers ---

    @torch.inference_mode()
    def _logits(self, read: Sequence[Read], batch_size: int) -> list[Tensor]:
        if self._has_images:
            with evaluating(self.module.modules()):
                return [self._seen(one.image).logits[0] for one in read]
        return self._rows(read, batch_size, lambda ids: self.module(ids, **self._switches).logits)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Softmax over the classes, unless the config says that several may hold at once."""
        if self._config.problem_type == "multi_label_classification":
            return logits.sigmoid()
        return logits.softmax(dim=-1)

    @torch.inference_mode()
    def _vectors(self, read: Sequence[Read], batch_size: int) -> list[Tensor]:
        if self._has_images:
            with evaluating(self.module.modules()):
                return [self._pooled(self._seen(one.image))[0] for one in read]
        if self._is_pair:
            with evaluating(self.module.modules()):
                return [self._features(one)[0].cpu() for one in read]
        body = self._text_module
        if self.tasks != ("embed",):  # the body under the head, whatever its name
            body = getattr(body, body.base_model_prefix, body)
        return self._rows(read, batch_size, lambda ids: self._pooled(body(ids)))

    def _features(self, read: Read) -> Tensor:
        """A text or an image in the space that both share."""
        if read.image is not None:
            pixels = self._pixels(read.image)
            with self._foreign(read.image):
                found = self.module.get_image_features(pixel_values=pixels)
        else:
            with self._foreign():
                found = self.module.get_text_features(self._tensor(read.ids))
        features: Tensor = found if isinstance(found, Tensor) else found.pooler_output
        return features

    def _pooled(self, output: Any) -> Tensor:
        if self._pooling not in POOLINGS:
            raise ConfigError(
                "{name} makes its vectors with {pooling}, which is not supported: expected a "
                "Transformer, one Pooling ({known}) and Normalize",
                name=self.name,
                pooling=self._pooling[:80],
                known=", ".join(POOLINGS),
            )
        hidden: Tensor = output.last_hidden_state
        if hidden.dim() == 4:  # a convolutional network: channels first
            hidden = hidden.flatten(2).transpose(1, 2)
        match self._pooling:
            case "cls":
                return hidden[:, 0]
            case "max":
                return hidden.amax(dim=1)
            case "lasttoken":
                return hidden[:, -1]
        return hidden.mean(dim=1)

    def _rows(self, read: Sequence[Read], batch_size: int, answer: Any) -> list[Tensor]:
        """One answer for each text, in batches of texts of one length."""

        def run(batch: list[int]) -> Tensor:
            ids = torch.tensor([read[i].ids for i in batch], device=self.module.device)
            with self._foreign():
                return answer(ids).cpu()  # type: ignore[no-any-return]

        lengths = [len(one.ids) for one in read]
        return in_batches(self.module, run, lengths, batch_size, equal=True)

    def _translated(
        self,
        sources: list[list[int]],
        search: Search,
        max_new: int | None,
        batch_size: int,  # noqa: ARG002 - transformers searches for one text at a time here
        ledger: bool,
    ) -> Iterator[Written]:
        self._refuse_ledger(ledger)
        return ((tuple(self._generated(ids, search, max_new)), None) for ids in sources)

    def _read_prompt(self, prompt: str) -> Read:
        """The last ids of a prompt that leave room for a new one."""
        ids = self.reader.encode(prompt) or self._beginning()
        kept = ids if self.max_tokens is None else ids[-max(1, self.max_tokens - 1) :]
        return Read(prompt, kept, len(kept) < len(ids))

    def _continued(self, ids: list[int], search: Search, max_new: int, ledger: bool) -> Written:
        self._refuse_ledger(ledger)
        return tuple(self._generated(ids, search, self._room(ids, max_new))), None

    def _room(self, ids: Sequence[int], max_new: int) -> int:
        return max_new if self.max_tokens is None else min(max_new, self.max_tokens - len(ids))

    @torch.inference_mode()
    def _generated(
        self, ids: Sequence[int], search: Search, max_new: int | None
    ) -> list[Alternative]:
        """What transformers generates after these ids (for an encoder-decoder: from them)."""
        wanted = len(ids) + _MORE_THAN_SOURCE if max_new is None else max_new
        options = self._options(search, wanted)
        if self._config.is_encoder_decoder and self.max_tokens is not None:  # after the start token
            options.max_new_tokens = min(wanted, max(1, self.max_tokens - 1))
        with self._foreign(), evaluating(self.module.modules()), quietly(), _seeded(search):
            said = self.module.generate(self._tensor(ids), generation_config=options)
            beams = getattr(said, "beam_indices", None)
            # The model's own logits: scores are those after temperature and cuts.
            steps = self.module.compute_transition_scores(
                said.sequences, said.logits, beams, normalize_logits=True
            )
        given = 1 if self._config.is_encoder_decoder else len(ids)
        ends = self._ends()
        found = []
        for number, sequence in enumerate(said.sequences):
            tokens = sequence[given:].tolist()
            end = next((at for at, id_ in enumerate(tokens) if id_ in ends), None)
            written = tokens if end is None else tokens[:end]
            n_scored = len(written) + (end is not None)
            total = float(steps[number, :n_scored].sum())
            score = total if beams is None else float(said.sequences_scores[number])
            before = [] if self._config.is_encoder_decoder else sequence[:given].tolist()
            text = self.writer.decode_after(before, written)
            if end is None:
                text = text.removesuffix(HALF_CHARACTER)
            found.append(Alternative(text, score, total, end is not None, tuple(written)))
        return found

    def _options(self, search: Search, max_new: int) -> Any:
        """Our search as settings of transformers; what it leaves open, the folder decides."""
        if type(max_new) is not int or max_new < 1:
            raise ConfigError(
                "expected room for at least one token, got max_new {max_new}", max_new=max_new
            )
        config: dict[str, Any] = {
            "max_new_tokens": max_new,
            "return_dict_in_generate": True,
            "output_scores": isinstance(search, Beam),
            "output_logits": True,
            "do_sample": False,
            "num_beams": 1,
            "pad_token_id": next(iter(sorted(self._ends())), 0),
            "eos_token_id": sorted(self._ends()) or None,
        }
        if isinstance(search, Beam) and search.size > 1:  # of one, transformers warns
            config |= {
                "num_beams": search.size,
                "num_return_sequences": search.n_best,
                "length_penalty": float(search.length_penalty),
                "early_stopping": {"first": True, "best": False, "exact": "never"}[search.stop],
            }
        elif isinstance(search, Sampling):
            config |= {
                "do_sample": True,
                "temperature": float(search.temperature),
                "top_k": search.top_k or 0,
                "top_p": 1.0 if search.top_p is None else float(search.top_p),
                "min_p": search.min_p,
                "repetition_penalty": float(search.repetition_penalty),
                "num_return_sequences": search.n_samples,
            }
        own = self.module.generation_config
        if self._config.is_encoder_decoder:
            config["decoder_start_token_id"] = self._start
            config["forced_bos_token_id"] = getattr(own, "forced_bos_token_id", None)
        return type(own)(**config)

    def _ends(self) -> set[int]:
        """The ids that end a text."""
        own = self.module.generation_config.eos_token_id
        ids = own if isinstance(own, list) else [own]
        return {id_ for id_ in (*ids, self.writer.special.end) if isinstance(id_, int)}

    def _streamed(self, ids: list[int], search: Greedy | Sampling, max_new: int) -> Iterator[str]:
        options = self._options(search, self._room(ids, max_new))
        return self._pieces(ids, options, _seeded(search))

    def _pieces(
        self, ids: list[int], options: Any, seeded: AbstractContextManager[None]
    ) -> Iterator[str]:
        """Pieces as they are written, in a thread of transformers' own streamer."""
        from queue import SimpleQueue

        queue: SimpleQueue[list[int] | BaseException | None] = SimpleQueue()

        class Streamer:
            def put(self, new: Tensor) -> None:
                queue.put(new.flatten().tolist())

            def end(self) -> None:
                queue.put(None)

        def write() -> None:
            try:
                with (
                    self._foreign(),
                    torch.inference_mode(),
                    evaluating(self.module.modules()),
                    quietly(),
                    seeded,
                ):
                    self.module.generate(
                        self._tensor(ids), generation_config=options, streamer=Streamer()
                    )
            except BaseException as error:  # raised where the pieces are read
                queue.put(error)

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        pieces, ends = self.writer.stream(), self._ends()
        is_prompt = True
        while (new := queue.get()) is not None:
            if isinstance(new, BaseException):
                raise new
            if is_prompt:
                pieces.skip(new)
                is_prompt = False
                continue
            for id_ in new:
                if id_ not in ends and (piece := pieces.push(id_)):
                    yield piece
        writer.join()  # until then it owns the random generator
        if rest := pieces.finish().removesuffix(HALF_CHARACTER):
            yield rest

    def _refuse_ledger(self, ledger: bool) -> None:
        if ledger:
            raise ConfigError(
                "the steps of a search are kept for models of glassformer alone; {name} is "
                "searched by transformers",
                name=self.name,
            )


def _patch_labels(module: nn.Module, pixels: Tensor) -> dict[str, list[str]]:
    """The place of each patch, such as `y0x1`, by the learned positions that are added to them."""
    side = getattr(module.config, "patch_size", None)
    if not isinstance(side, int) or side < 1:
        return {}
    rows, columns = (size // side for size in pixels.shape[-2:])
    places = places_of_patches(rows, columns)
    for name, parameter in module.named_parameters():
        if name.endswith("position_embeddings") and parameter.ndim == 3:
            before = parameter.shape[1] - len(places)  # tokens of the class and of distillation
            if 0 <= before <= 2 < parameter.shape[1]:
                return {name: [*("[CLS]", "[DIST]")[:before], *places]}
    return {}


@contextmanager
def _seeded(search: Search) -> Iterator[None]:
    """Random numbers from the seed of a search; the caller's generator is left as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(search.seed if isinstance(search, Sampling) else 0)
        yield

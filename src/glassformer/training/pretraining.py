"""Pretraining: the run whose tokenizer and weights another run starts from."""

from dataclasses import replace

import torch
from torch import nn

from glassformer.errors import ConfigError, TrainingError
from glassformer.training.run_config import RunConfig
from glassformer.training.run_folder import RunFolder
from glassformer.training.settings import is_place, settings_of


def with_pretraining_placed(config: RunConfig) -> RunConfig:
    """Pretraining finds data, cache and device where the run does, unless it has its own."""
    first = config.first
    if first is None:
        return config
    if first.loop.device not in ("auto", config.loop.device):
        raise ConfigError(
            "both runs use one device: set loop.device, got {device} and first.loop.device {other}",
            device=config.loop.device,
            other=first.loop.device,
        )
    data = replace(
        first.data,
        folder=first.data.folder or config.data.folder,
        cache=first.data.cache or config.data.cache,
    )
    loop = replace(first.loop, device=config.loop.device)
    return replace(config, first=with_pretraining_placed(replace(first, data=data, loop=loop)))


def check_unchanged(config: RunConfig, folder: RunFolder) -> None:
    """Refuse other settings of a run that is done: they would be recorded, and not be true."""
    wanted, there = (
        {setting.name: setting.value for setting in settings_of(one) if not is_place(setting.name)}
        for one in (config, folder.read_config())
    )
    for name, value in wanted.items():
        if value != there.get(name):
            raise ConfigError(
                "the run {recipe} in {path} is done, with first.{name} {value}, not {new}; "
                "leave it as it was, or start in another folder",
                recipe=config.recipe,
                path=folder.path,
                name=name,
                value=there.get(name),
                new=value,
            )


@torch.no_grad()
def start_from(model: nn.Module, earlier: nn.Module) -> None:
    """Give a model the weights of an earlier one, wherever both have a parameter of that name."""
    known = dict(earlier.named_parameters())
    common = {name: p for name, p in model.named_parameters() if name in known}
    if not common:
        raise TrainingError("the model has no parameter in common with the one it starts from")
    for name, parameter in common.items():
        if parameter.shape != known[name].shape:
            raise TrainingError(
                "the parameter {name} has shape {shape}, the model it starts from {other}; "
                "give both the same sizes",
                name=name,
                shape=tuple(parameter.shape),
                other=tuple(known[name].shape),
            )
        parameter.copy_(known[name])

"""Runs a teacher on all examples of a task and caches its outputs.

With --cache, kdkit distill also does this; this verb does it in advance.
All runs with this teacher on these examples share them: other recipes, seeds,
stages and arms. Several processes can share the work with --shard 1/4 to 4/4;
the same command without --shard computes what is missing. The last line is a
JSON object with the error of each output that was saved in fewer bits.

example:
  kdkit cache tinybert --task sst2 --data-dir glue --teacher runs/teacher \\
      --cache caches/sst2 --cache-precision bf16
"""

import dataclasses

from kdkit.cli.groups import DistillationOptions, ShardOptions, StageOptions


@dataclasses.dataclass
class OnTasksAlone:
    """Constants in place of the options for text."""

    model: str = "bert"
    one_document: None = None
    detokenizer: None = None
    pairs: None = None
    pair_columns: None = None
    languages: None = None


@dataclasses.dataclass
class Options(OnTasksAlone, DistillationOptions, StageOptions, ShardOptions):
    """options"""

    encoder: None = None
    control: bool = False
    seed: None = None
    smoke: bool = False
    config: None = None
    mixed_precision: None = None
    strategy: None = None


def run(options):
    import json

    from kdkit import training
    from kdkit.cli import loading, resolving
    from kdkit.cli import options as shared

    shared.require(options, "cache")
    part = shared.shard_part(options.shard)
    settings = resolving.distill_settings(options)
    loading.load_tensorflow()
    caches = training.fill_cache(settings, part)
    print(json.dumps({"relative_errors": caches.relative_errors()}))

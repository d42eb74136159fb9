"""The setting `strategy` of a run, and what goes with it."""

from kdkit.errors import UsageError

MIRRORED = "mirrored"
MULTI_WORKER = "multi_worker"
STRATEGIES = (MIRRORED, MULTI_WORKER)


def check_strategy(settings) -> None:
    """Checks the setting `strategy` of a run, and what does not go with it.

    Args:
        settings: settings of a run.

    Raises:
        UsageError: with what is wrong.
    """
    if settings.strategy is None:
        return
    if settings.strategy not in STRATEGIES:
        raise UsageError(
            f"`strategy` must be one of {STRATEGIES} or null. Received: "
            f"{settings.strategy!r}."
        )
    if settings.jit_compile:
        raise UsageError(
            "XLA compiles for one device. Received: jit_compile="
            f"{settings.jit_compile!r}, strategy={settings.strategy!r}. Use "
            "jit_compile=false, or one device."
        )
    if settings.dtype_policy == "mixed_float16":
        raise UsageError(
            "Whether gradients in float16 are finite, Keras asks one replica "
            "alone, before they are added up. Received: "
            f"dtype_policy='mixed_float16', strategy={settings.strategy!r}. "
            "Use mixed_bfloat16, or one device."
        )
    in_parts = _stages_in_parts(settings)
    if in_parts:
        raise UsageError(
            "Several devices compute the parts of a batch side by side, not "
            f"one after the other. Received: strategy={settings.strategy!r}, "
            "gradient_accumulation_steps above 1 in "
            f"{', '.join(in_parts)}. Use more devices, or a smaller batch_size."
        )


def check_parts(settings) -> None:
    """Refuses parts of batches that a loss scale may leave out.

    Args:
        settings: settings of a run.

    Raises:
        UsageError: for `gradient_accumulation_steps` in float16.
    """
    in_parts = _stages_in_parts(settings)
    if settings.dtype_policy == "mixed_float16" and in_parts:
        raise UsageError(
            "A part of a batch whose gradients are not finite in float16 is "
            "left out, and the parts after it would be of two batches. "
            "Received: dtype_policy='mixed_float16', "
            f"gradient_accumulation_steps above 1 in {', '.join(in_parts)}. "
            "Use mixed_bfloat16, or whole batches."
        )


def _stages_in_parts(settings):
    return [
        stage.name
        for stage in (*settings.stages, *getattr(settings, "control", ()))
        if stage.gradient_accumulation_steps > 1
    ]


def check_one_process(settings) -> None:
    """Refuses runs of several processes where one process makes many runs.

    Args:
        settings: settings of a run.

    Raises:
        UsageError: for the strategy `"multi_worker"`.
    """
    if settings.strategy == MULTI_WORKER:
        raise UsageError(
            "Several machines train one run together. Received: many runs, "
            "strategy='multi_worker'. Use strategy=mirrored, and make some of "
            "the runs on each machine."
        )

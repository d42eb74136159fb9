"""Making devices ready, which TensorFlow takes before its first operation."""

from kdkit.errors import UsageError


def prepare(options) -> None:
    """Splits or chooses the devices that a run trains on, as its options say.

    With `--config` alone they are as many as that run had. Where nothing is
    trained, options that clash are refused and no device is touched.

    Args:
        options: the parsed options of a verb.

    Raises:
        UsageError: if these devices or processes are not there.
        RunError: if not all processes came.
    """
    strategy = getattr(options, "strategy", None)
    config = getattr(options, "config", None)
    number = getattr(options, "devices", None)
    if strategy is None and config is None and number is None:
        return

    from kdkit.training.devices import use_devices
    from kdkit.training.distribution import open_distribution
    from kdkit.training.run_directory import read_config
    from kdkit.training.run_directory import read_replicas
    from kdkit.training.strategies import MIRRORED
    from kdkit.training.strategies import MULTI_WORKER

    if config is not None:
        strategy = strategy or read_config(config).get("strategy")
    if number is not None:
        _check_number(number, strategy)
    if getattr(options, "trains_nothing", False):
        return
    noted = None
    if config is not None:
        noted = read_replicas(config) if number is None else None
    if noted is not None and strategy == MIRRORED:
        print(f"{config} is of a run on {noted} devices, as is this one.")
        number = noted
    if number is not None:
        use_devices(number, splits_cpu=strategy != MULTI_WORKER)
    if strategy == MULTI_WORKER:
        total = open_distribution(strategy).shares.total
        if noted not in (None, total):
            print(
                f"{config} is of a run with {noted} replicas, and {total} "
                "train here. Where there is dropout, the numbers differ."
            )


def _check_number(number, strategy):
    """What no machine has, or no run takes."""
    if strategy is None:
        raise UsageError(
            "--devices is how many devices --strategy trains on. Received: "
            "--devices alone. Add --strategy mirrored, or leave it out."
        )
    if number < 1:
        raise UsageError(
            f"Expected at least 1 device. Received: --devices {number}."
        )

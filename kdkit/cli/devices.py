"""Making devices ready, which TensorFlow takes before its first operation."""


def prepare(options) -> None:
    """Splits or chooses the devices that a run trains on, as its options say.

    With `--config` alone they are as many as that run had.

    Args:
        options: the parsed options of a verb.

    Raises:
        UsageError: if these devices or processes are not there.
        RunError: if not all processes came.
    """
    if getattr(options, "trains_nothing", False):
        return
    strategy = getattr(options, "strategy", None)
    config = getattr(options, "config", None)
    number = getattr(options, "devices", None)
    if strategy is None and config is None and number is None:
        return

    from kdkit.errors import UsageError
    from kdkit.training.devices import use_devices
    from kdkit.training.distribution import open_distribution
    from kdkit.training.run_directory import read_config
    from kdkit.training.run_directory import read_replicas
    from kdkit.training.strategies import MIRRORED
    from kdkit.training.strategies import MULTI_WORKER

    noted = None
    if config is not None:
        strategy = strategy or read_config(config).get("strategy")
        noted = read_replicas(config) if number is None else None
    if noted is not None and strategy == MIRRORED:
        print(f"{config} is of a run on {noted} devices, as is this one.")
        number = noted
    if number is not None:
        if strategy is None:
            raise UsageError(
                "--devices is how many devices --strategy trains on. Received: "
                "--devices alone. Add --strategy mirrored, or leave it out."
            )
        use_devices(number, splits_cpu=strategy != MULTI_WORKER)
    if strategy == MULTI_WORKER:
        total = open_distribution(strategy).shares.total
        if noted not in (None, total):
            print(
                f"{config} is of a run with {noted} replicas, and {total} "
                "train here. Where there is dropout, the numbers differ."
            )

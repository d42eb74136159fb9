"""Making devices ready, which TensorFlow takes before its first operation."""


def prepare(options) -> None:
    """Splits or chooses the devices that a run trains on, as its options say.

    Args:
        options: the parsed options of a verb.

    Raises:
        UsageError: if these devices are not there.
    """
    from kdkit.errors import UsageError
    from kdkit.training.distribution import use_devices

    number = getattr(options, "devices", None)
    if number is None:
        return
    if options.strategy is None and options.config is None:
        raise UsageError(
            "--devices is how many devices --strategy trains on. Received: "
            "--devices alone. Add --strategy mirrored, or leave it out."
        )
    use_devices(number)

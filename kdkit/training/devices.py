"""Which devices TensorFlow sees: those of the machine, or some of them."""

from kdkit.backends import tf
from kdkit.errors import UsageError


def visible_devices() -> list[str]:
    """The GPUs that TensorFlow sees, or else its logical CPUs, by name."""
    for kind in ("GPU", "CPU"):
        found = tf.config.list_logical_devices(kind)
        if found:
            return [f"{kind}:{number}" for number in range(len(found))]
    return []


def use_devices(number: int, splits_cpu: bool = True) -> None:
    """Makes TensorFlow see so many devices.

    These are the first of the GPUs. On a machine without any the CPU becomes
    so many logical devices, which share its cores.

    Args:
        number: int. At least 1.
        splits_cpu: bool. Whether the CPU may become several. Defaults to
            `True`.

    Raises:
        UsageError: if there are not as many GPUs, or TensorFlow computed
            something already.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus and not splits_cpu:
        raise UsageError(
            "Of several machines without GPUs each trains on its CPU as one "
            f"device. Received: --devices {number}. Leave it out."
        )
    if number < 1 or gpus and number > len(gpus):
        raise UsageError(
            f"Expected from 1 to {len(gpus) or 'any number of'} devices. "
            f"Received: {number}. Choose so many with --devices."
        )
    try:
        if gpus:
            tf.config.set_visible_devices(gpus[:number], "GPU")
        else:
            (cpu,) = tf.config.list_physical_devices("CPU")
            tf.config.set_logical_device_configuration(
                cpu, [tf.config.LogicalDeviceConfiguration()] * number
            )
    except RuntimeError as error:
        raise UsageError(
            "The number of devices is set before TensorFlow computes anything. "
            f"Received: {error}"
        ) from error

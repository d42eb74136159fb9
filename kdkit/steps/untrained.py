"""What is said where a loss can change nothing."""

from kdkit.errors import UsageError


def check_trained(trained, num_variables: int) -> None:
    """Refuses a step without any gradient.

    Args:
        trained: iterable. What a gradient was found for; empty or all false
            where there is none.
        num_variables: int. How many trainable weights there are.

    Raises:
        UsageError: (a `ValueError`) if there is none.
    """
    if not any(trained):
        raise UsageError(
            "The loss has no gradient in any trainable weight. Received: "
            f"{num_variables} trainable weights. Unfreeze layers of the "
            "student, or add an objective that depends on them."
        )

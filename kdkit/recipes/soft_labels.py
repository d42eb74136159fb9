"""Soft labels as several recipes have them."""

from kdkit.training.stages import ObjectiveSettings


def logit_kl_divergence(
    temperature: float = 1.0, weight: float = 1.0
) -> ObjectiveSettings:
    """Returns the divergence from the teacher's distribution, times T².

    Args:
        temperature: float. The temperature T. Defaults to `1.0`.
        weight: float. Factor in the total loss. Defaults to `1.0`.
    """
    return ObjectiveSettings(
        name="logit_kl_divergence",
        loss="logit_kl_divergence",
        tap="logits",
        loss_settings={"temperature": temperature},
        weight=weight,
    )

"""AdamW as it is defined, and its update as one loop over each weight."""

import keras

from kdkit.backends import need_tensorflow
from kdkit.backends import tf
from kdkit.gradients import whole


@keras.saving.register_keras_serializable(package="kdkit")
class AdamW(keras.optimizers.AdamW):
    """Keras' AdamW, which sums the gradients of a word before it squares them.

    Args:
        fused: bool. Whether XLA makes one loop of the update. Keras' own is a
            chain of operations with a tensor of the weight's size between each
            two, most of all for word embeddings, of which a batch reads few
            rows and the update all. Unlike `jit_compile=True` for the step this
            costs one compilation, not one for each length of the batches. On
            one device only, and of TensorFlow. Defaults to `False`.
        **options: those of `keras.optimizers.AdamW`.
    """

    def __init__(self, *, fused: bool = False, **options):
        if fused:
            need_tensorflow("AdamW(fused=True)")
        super().__init__(**options)
        self.fused = fused

    def apply(self, grads, trainable_variables=None):
        """Updates the weights, as Keras' optimisers do."""
        gradients = [whole(gradient) for gradient in grads]
        update = super().apply
        if not self.fused:
            update(gradients, trainable_variables)
            return

        @tf.function(jit_compile=True, autograph=False)
        def fused(gradients):
            update(gradients, trainable_variables)

        fused(gradients)

    def get_config(self):
        return {**super().get_config(), "fused": self.fused}

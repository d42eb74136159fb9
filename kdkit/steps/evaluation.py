"""What evaluation does with a batch where variables are updated in place."""

import keras


class EvaluationStep:
    """A step that changes nothing but running means."""

    def test_step(self, data):
        """The same losses in inference mode, and the compiled metrics."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        _, y_pred = self.run_student(
            x, y, sample_weight, self.run_teachers(x), training=False
        )
        return self.compute_metrics(x, y, y_pred, sample_weight)

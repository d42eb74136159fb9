"""The evaluation step on backends that update variables in place."""

import keras


class EvaluationStep:
    """A step that only updates running means."""

    def test_step(self, data):
        """Computes the losses in inference mode, and the compiled metrics."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        _, y_pred = self.run_student(
            x, y, sample_weight, self.run_teachers(x), training=False
        )
        return self.compute_metrics(x, y, y_pred, sample_weight)

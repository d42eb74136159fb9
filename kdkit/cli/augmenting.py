"""From the options about augmentation to settings."""

import dataclasses

from kdkit import models
from kdkit.augmentation import Augmentation
from kdkit.augmentation import copies_for
from kdkit.cli.options import absolute
from kdkit.cli.options import given_flags
from kdkit.cli.options import located
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.training.augmenting import load_parts
from kdkit.training.transfer_settings import AugmentedSettings
from kdkit.training.transfer_settings import AugmentSettings


def augment_settings(options) -> AugmentSettings:
    """The settings of `kdkit augment`, or all that is wrong with them."""
    settings = AugmentSettings(
        task=options.task,
        data_dir=absolute(options.data_dir),
        model=absolute(options.model),
        word_vectors=absolute(options.word_vectors),
        stop_words=absolute(options.stop_words),
        parity=options.parity,
        seed=options.seed,
    )
    copies = options.copies
    if copies is None:
        copies = copies_for(options.task, options.parity)
    with all_mistakes() as check:
        augmentation = None
        with check():
            augmentation = Augmentation(
                num_copies=copies,
                probability=options.probability,
                num_candidates=options.candidates,
                sequential=options.sequential,
            )
        if augmentation is None:
            # What else is wrong is told with it.
            with check():
                load_parts(settings, options.output)
        else:
            with check():
                models.check_place(settings.model)
    return dataclasses.replace(settings, augmentation=augmentation)


def augmented_settings(options) -> AugmentedSettings | None:
    """The copies that a distillation trains on; `None` for none."""
    if options.augment is None:
        given = given_flags(options, ("augment_model", "augment_vectors"))
        if given:
            raise UsageError(
                f"{' and '.join(given)} needs --augment, the name of the file. "
                "Received: none."
            )
        return None
    made_by = None
    parity = options.parity if options.parity == "tinybert" else None
    if options.augment_model is not None:
        made_by = AugmentSettings(
            task=options.task,
            data_dir=absolute(options.data_dir),
            model=absolute(options.augment_model),
            word_vectors=absolute(options.augment_vectors),
            augmentation=Augmentation(
                num_copies=copies_for(options.task, parity)
            ),
            parity=parity,
        )
    elif options.augment_vectors is not None:
        raise UsageError(
            "--augment-vectors needs --augment-model, which the copies are "
            "made with. Received: none."
        )
    return AugmentedSettings(file=located(options.augment), made_by=made_by)

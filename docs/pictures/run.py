"""Draws run.svg: `kdkit demo` in a terminal, while its student trains.

    python docs/pictures/run.py

It trains the demo's teacher first, which takes minutes.
"""

import contextlib
import io
import logging
import os
import pathlib
import re
import tempfile

from rich.console import Console

from kdkit.runs.configure import config_of
from kdkit.runs.messages import TerminalHandler, progress_display
from kdkit.runs.run import run
from kdkit.runs.smoke import DEMO

PICTURE = pathlib.Path(__file__).with_suffix(".svg").absolute()
STAGE, EPOCH = "student, prediction_layer", 2


class Painter(TerminalHandler):
    """Prints messages on a recording console, and stops at one moment."""

    def __init__(self):
        super().__init__(
            Console(
                record=True,
                width=100,
                force_terminal=True,
                file=io.StringIO(),
                highlight=False,
            )
        )
        self.setLevel(logging.DEBUG)

    def show(self, progress):
        is_there = (progress.title, progress.epoch) == (STAGE, EPOCH)
        if is_there and 2 * progress.step > progress.steps_per_epoch:
            self.console.print(progress_display(progress))
            raise KeyboardInterrupt

    def hide(self):
        """The recording console has no display to remove."""


def main():
    logger = logging.getLogger("kdkit")
    logger.setLevel(logging.DEBUG)
    painter = Painter()
    painter.console.print("$ kdkit demo", style="bold")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        logger.addHandler(painter)
        with contextlib.suppress(KeyboardInterrupt):
            run(config_of("tinybert", DEMO, smoke=True), "runs/demo")
    svg = painter.console.export_svg(title="kdkit demo")
    # Without fonts from other servers.
    PICTURE.write_text(re.sub(r"@font-face {.*?}\s*", "", svg, flags=re.S))
    print(f"Written: {PICTURE}")


if __name__ == "__main__":
    main()

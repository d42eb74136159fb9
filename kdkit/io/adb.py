"""Finds an Android phone with adb, and runs adb."""

import dataclasses
import os
import subprocess

from kdkit.errors import RunError

TIMEOUT = 600  # seconds for one call of adb


@dataclasses.dataclass(frozen=True)
class Device:
    """An Android phone."""

    serial: str
    model: str
    android: str


def find_device(serial: str | None = None) -> Device:
    """Finds the phone to measure on; `None` for the only one."""
    if serial is None:
        serial = last_line(adb("get-serialno"))  # after those of its server
    model, android = (
        adb("-s", serial, "shell", f"getprop {name}").strip()
        for name in ("ro.product.model", "ro.build.version.release")
    )
    return Device(serial, model or serial, android or "unknown")


def adb(*words: str) -> str:
    """Runs adb and returns what it printed."""
    status, printed = call_adb(*words)
    if status:
        command = " ".join(words)
        raise RunError(f"adb {command}: {last_line(printed)}")
    return printed


def call_adb(*words: str) -> tuple[int, str]:
    """Runs adb; returns its exit status and what it printed."""
    done = subprocess.run(
        ["adb", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT,
        env=os.environ | {"LC_ALL": "C"},
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def last_line(text: str) -> str:
    """Returns the last line of a text that is not blank."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing"

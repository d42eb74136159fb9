"""Finds an Android phone with adb, and runs adb."""

import dataclasses
import os
import shutil
import subprocess

from kdkit.errors import RunError, UsageError, shortened

TIMEOUT = 600  # seconds for one call of adb
READY = "device"  # the state of a phone that adb can use
HINTS = {
    "unauthorized": "Accept the computer's key on its screen.",
    "offline": "Reconnect it, or run adb kill-server.",
}


@dataclasses.dataclass(frozen=True)
class Device:
    """An Android phone."""

    serial: str
    model: str
    android: str


def find_device(serial: str | None = None) -> Device:
    """Finds the phone to measure on."""
    if shutil.which("adb") is None:
        raise UsageError(
            "adb was not found. Expected Android's platform tools on PATH. "
            "Install them, for example with apt-get install adb."
        )
    states = {}
    for line in adb("devices").splitlines():
        name, tab, state = line.partition("\t")
        if tab:
            states[name] = state.strip()
    if serial:
        if serial not in states:
            raise UsageError(
                f"adb finds no device {serial!r}. Expected one of "
                f"{', '.join(states) or 'none connected'}. Connect it, or pass "
                "another serial number."
            )
    elif not states:
        raise UsageError(
            "adb finds no device. Expected a phone with USB debugging. Connect "
            "one, and check it with adb devices."
        )
    elif len(states) > 1:
        raise UsageError(
            f"adb finds {len(states)} devices: {', '.join(states)}. Expected "
            f"one. Choose, for example with --adb {next(iter(states))}."
        )
    serial = serial or next(iter(states))
    if states[serial] != READY:
        raise UsageError(
            f"The device {serial} is not ready: adb reports "
            f"{states[serial]!r}. Expected {READY!r}. "
            f"{HINTS.get(states[serial], 'Reconnect it.')}"
        )
    model, android = (
        adb("-s", serial, "shell", f"getprop {name}").strip()
        for name in ("ro.product.model", "ro.build.version.release")
    )
    return Device(serial, model or serial, android or "unknown")


def adb(*words: str, failed: str = "read") -> str:
    """Runs adb and returns what it printed."""
    status, printed = call_adb(*words)
    if status:
        raise RunError(
            f"Cannot {failed} the device. Expected adb to succeed. Received: "
            f"exit status {status}, {shortened(last_line(printed))}. Check "
            "the connection, and that benchmark_model fits the phone's "
            "processor."
        )
    return printed


def call_adb(*words: str) -> tuple[int, str]:
    """Runs adb; returns its exit status and what it printed."""
    try:
        done = subprocess.run(
            ["adb", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            env=os.environ | {"LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {TIMEOUT} seconds"
    except OSError as error:
        return 127, str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def last_line(text: str) -> str:
    """Returns the last line of a text that is not blank."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing"

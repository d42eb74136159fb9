"""Freed memory is reused for later allocations."""

import os
import platform
import subprocess
import sys

import pytest

from kdkit.io import machine

PAGES_OF_TWO_BLOCKS = """
import resource
import kdkit
print(kdkit.keep_freed_memory())
pages = []
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = bytearray(64_000_000)
    del block
    pages.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(pages[1] + pages[2])
"""
needs_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="glibc's way to give memory back"
)


def kept_and_pages(**environment):
    """What the call returned in a new process, and later pages."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in (*machine.CHOICES, "GLIBC_TUNABLES")
    }
    answer, pages = subprocess.run(
        [sys.executable, "-c", PAGES_OF_TWO_BLOCKS],
        env={**clean, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.split()
    return answer == "True", int(pages)


@needs_glibc
def test_a_block_as_large_as_the_last_one_takes_no_new_pages():
    kept, pages = kept_and_pages()
    assert kept
    assert pages < 1000  # two blocks of 15,625 pages


@needs_glibc
@pytest.mark.parametrize(
    "chosen",
    [
        {"MALLOC_MMAP_MAX_": "65536"},
        {"MALLOC_TRIM_THRESHOLD_": "131072"},
        {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=65536"},
    ],
    ids=lambda chosen: next(iter(chosen)),
)
def test_who_chose_in_the_environment_has_chosen(chosen):
    kept, pages = kept_and_pages(**chosen)
    assert not kept
    assert pages > 10_000

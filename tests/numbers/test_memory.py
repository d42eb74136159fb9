"""Freed memory is reused for later allocations."""

import os
import platform
import subprocess
import sys

import pytest

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


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="glibc's way to give memory back"
)
def test_a_block_as_large_as_the_last_one_takes_no_new_pages():
    """Unless the environment says how memory is given back."""
    others = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
    values = ("65536", "131072", "glibc.malloc.mmap_max=65536")
    given = dict(zip(others, values, strict=True))
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MALLOC_", "GLIBC_"))
    }
    for chosen in ({}, *({name: given[name]} for name in given)):
        kept, pages = subprocess.run(
            [sys.executable, "-c", PAGES_OF_TWO_BLOCKS],
            env=clean | chosen,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.split()
        assert kept == str(not chosen)
        # Two blocks are 31,250 pages.
        assert (int(pages) < 1000) == (not chosen), chosen

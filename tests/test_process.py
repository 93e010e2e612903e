"""How a process that trains is set up."""

import subprocess
import sys

import pytest

PROGRAM = """
import torch
from pathlib import Path
from trainables.process import settle

settle()
assert torch.get_num_threads() == 1

def faults():
    return int(Path("/proc/self/stat").read_text().rsplit(")")[1].split()[7])

for _ in range(20):
    torch.ones(2**24)  # 64 MB: mapped and unmapped each time by default
before = faults()
for _ in range(10):
    torch.ones(2**24)
print(faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_that_was_freed_is_used_again_without_asking_the_system():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20_000  # pages; ten times 64 MB are 163,840 of them

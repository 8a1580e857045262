"""Prints the `sh` blocks of a page as one bash script, with a marker line before each block.

Skips blocks that build or run the service with cargo or docker: the test has started a service already.
"""

import re
import sys

page = sys.argv[1]
lines = open(page).read().split("\n")
start, block = 0, []

for number, line in enumerate(lines, 1):
    if line == "```sh":
        start, block = number, []
    elif line == "```" and start:
        if not any(re.match(r"(cargo|docker) ", command) for command in block):
            # A comment announces each error that the block shows: `# fails with 403 banned`.
            expected = sum("# fails with" in command for command in block)
            print(f"echo '@@ {page}:{start} {expected}'")
            print("\n".join(block))
        start = 0
    elif start:
        block.append(line)

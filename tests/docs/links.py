"""Fails on links in the Markdown files of the repository that lead to a missing file or heading."""

import re
import subprocess
import sys
from pathlib import Path


def anchors(page):
    """The anchors of a page: its headings as GitHub derives them, and ids given in HTML."""
    found, fenced = set(), False
    for line in page.read_text().split("\n"):
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else re.match(r"#+ (.*)", line)
        if heading:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            found.add(re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-"))
        found |= set(re.findall(r'id="([^"]+)"', line))
    return found


def broken(page):
    """Each broken link of a page, with the reason."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            yield f"{page}: {link}: no such file"
        elif anchor and anchor not in anchors(target):
            yield f"{page}: {link}: no such heading"


pages = subprocess.run(["git", "ls-files", "*.md"], capture_output=True, text=True, check=True).stdout.split("\n")
problems = [problem for page in pages if page and Path(page).exists() for problem in broken(Path(page))]
print("\n".join(problems) or "links: ok")
sys.exit(1 if problems else 0)

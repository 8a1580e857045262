"""Publishes, lists and installs a node with an unmodified command line tool of the ecosystem (comfy-cli).

    registry_cli.py BASE COMMAND

BASE is the service, which must be at port 8080, because the tool has no setting for another one. COMMAND is the tool. ADMIN_TOKEN
is in the environment.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

BASE, COMMAND = sys.argv[1:3]
NODE, PUBLISHER = "Face-Tools", "acme"
DEPENDENCIES = [f"package-{at}".ljust(230 - len(" >= 1.0"), "x") + " >= 1.0" for at in range(300)]
# Version of a host between two releases, by `git describe`.
HOST_VERSION = "v0.3.30-20-g5c5457a4"
OTHER_HOSTS = ["unknown", "v0.3.30", "0.3"]


def ask(method, path, body=None, token=os.environ["ADMIN_TOKEN"]):
    """Sends a request that must succeed; returns the JSON of the response."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data, method=method)
    request.add_header("Authorization", f"Bearer {token}")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def run(*arguments, folder, home):
    """Runs the tool and returns its output; ends this test if the tool fails."""
    environment = {
        "ENVIRONMENT": "dev", "HOME": str(home), "XDG_CONFIG_HOME": str(home), "PATH": os.environ["PATH"], "NO_COLOR": "1",
        "COLUMNS": "400", "LANG": "C.UTF-8", "DO_NOT_TRACK": "1", "GIT_CONFIG_GLOBAL": os.devnull,
    }
    ran = subprocess.run(
        [COMMAND, "--skip-prompt", "--no-enable-telemetry", *arguments], cwd=folder, env=environment, text=True, timeout=120,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )
    if ran.returncode:
        sys.exit(f"{COMMAND} {' '.join(arguments)} ended with {ran.returncode}:\n{ran.stdout}")
    return ran.stdout


def write_node(folder):
    """Writes the files of a node, as its author keeps them."""
    (folder / "__init__.py").write_text("NODE_CLASS_MAPPINGS = {}\n", encoding="utf-8")
    (folder / "LICENSE").write_text("MIT\n", encoding="utf-8")
    dependencies = ",\n".join(f"    {json.dumps(dependency)}" for dependency in DEPENDENCIES)
    (folder / "pyproject.toml").write_text(
        f'''[project]
name = "{NODE}"
description = "Masks of faces"
version = "1.2.0"
license = {{ file = "LICENSE" }}
dependencies = [
{dependencies}
]

[project.urls]
Repository = "https://example.org/acme/face-tools"

[tool.comfy]
PublisherId = "{PUBLISHER}"
DisplayName = "Face tools"
Icon = ""
''',
        encoding="utf-8",
    )


def main():
    ask("POST", "/publishers", {"id": PUBLISHER, "name": "Acme"})
    token = ask("POST", f"/publishers/{PUBLISHER}/tokens", {"name": "ci"})["token"]
    with tempfile.TemporaryDirectory() as work:
        node, host, home = (Path(work) / name for name in ("node", "host", "home"))
        for folder in (node, host, host / "custom_nodes", home):
            folder.mkdir()
        write_node(node)

        # When the author publishes
        run("node", "publish", "--token", token, folder=node, home=home)

        # Then the version is active, with everything that the author wrote
        version = ask("GET", f"/nodes/{NODE}/versions/1.2.0")
        assert version["status"] == "NodeVersionStatusActive", version["status"]
        assert version["dependencies"] == DEPENDENCIES, "dependencies are as they were written"

        # And every host finds it, whatever it calls its version
        for host_version in [HOST_VERSION, *OTHER_HOSTS]:
            found = ask("GET", "/nodes?" + urllib.parse.urlencode({"host_version": host_version, "form_factor": "none"}))
            assert [one["id"] for one in found["nodes"]] == [NODE], (host_version, found)
        listed = run("node", "registry-list", folder=host, home=home)
        assert NODE in listed and "1.2.0" in listed, listed

        # And a host installs it
        for marker in ("main.py", "nodes.py", "execution.py", "folder_paths.py", "server.py"):
            (host / marker).write_text("", encoding="utf-8")
        for marker in ("comfy", "comfy_extras", "app", "models"):
            (host / marker).mkdir()
        run("--workspace", str(host), "node", "registry-install", NODE, folder=host, home=home)
        installed = host / "custom_nodes" / NODE / "__init__.py"
        assert installed.read_text(encoding="utf-8") == "NODE_CLASS_MAPPINGS = {}\n", "the archive is unpacked"
    print(f"{Path(COMMAND).name}: published with {len(DEPENDENCIES)} dependencies, listed, installed")


main()

"""One measurement in a fresh process: `python -m benchmarks.child REQUEST` prints one JSON line."""

import json
import os
import sys
from pathlib import Path

from benchmarks.cases import Case
from benchmarks.libraries import load_library
from benchmarks.operations import OPERATIONS
from benchmarks.runs import Run
from benchmarks.server_address import ServerAddress


def main() -> None:
    """Run the operation that the command line asks for."""
    request = json.loads(sys.argv[1])
    case = Case.from_json(request["case"])
    server = ServerAddress.from_json(request["server"]) if request["server"] else None
    run = Run(load_library(request["library"]), case, Path(request["work"]), server)
    print(json.dumps(OPERATIONS[case.operation](run)), flush=True)
    # icechunk sometimes crashes while the interpreter shuts down, after the result is there
    os._exit(0)


if __name__ == "__main__":
    main()

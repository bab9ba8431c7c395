#!/usr/bin/env python3
import pathlib
import sys

count = int(sys.argv[1])
logs = pathlib.Path("logs")
logs.mkdir(exist_ok=True)
(logs / f"{count}.log").write_text("".join(f"{n}\n" for n in range(count)))
print(f"stressed {count} times")

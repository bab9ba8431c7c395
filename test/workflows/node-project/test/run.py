import re
import sys

source = open(sys.argv[1]).read()
assert re.search(r"add = \(a, b\) => a \+ b", source), source
print("1 test passed")

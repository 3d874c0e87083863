"""Reads the standard library's own sources: parses each, walks the tree, counts what is defined and named.

What an interpreter does all day: many small objects of every lifetime, some large ones, modules mapped and loaded,
caches that grow. Two threads share the work, and a child process sorts the result.
"""

import ast
import collections
import json
import os
import subprocess
import sys
import sysconfig
import threading

MODULES = """argparse ast asyncio.base_events bdb cgi codecs configparser csv datetime decimal difflib dis doctest
email.message enum fractions functools heapq inspect ipaddress json.decoder locale logging mailbox os pathlib pickle
platform pydoc random shutil smtplib ssl statistics string subprocess tarfile tempfile textwrap tokenize traceback
typing unittest.mock uuid weakref zipfile""".split()


def outline(path):
    """Names of a source file by kind, and how often each name is used."""
    with open(path, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    kinds, names = collections.Counter(), collections.Counter()
    for node in ast.walk(tree):
        kinds[type(node).__name__] += 1
        if isinstance(node, ast.Name):
            names[node.id] += 1
    return kinds, names


def worker(paths, results):
    for path in paths:
        if os.path.exists(path):
            results.append((path, *outline(path)))


def main():
    root = sysconfig.get_path("stdlib")
    paths = [os.path.join(root, *name.split(".")) + ".py" for name in MODULES]
    results, threads = [], []
    for half in (paths[::2], paths[1::2]):
        threads.append(threading.Thread(target=worker, args=(half, results)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    total = sum((names for _, _, names in results), collections.Counter())
    text = json.dumps({path: kinds for path, kinds, _ in results}, sort_keys=True)
    lines = "\n".join(f"{count} {name}" for name, count in total.items())
    done = subprocess.run(["sort", "-rn"], input=lines, capture_output=True, text=True, check=True)
    print(len(results), "modules,", len(text), "bytes,", done.stdout.splitlines()[0], file=sys.stdout)


main()

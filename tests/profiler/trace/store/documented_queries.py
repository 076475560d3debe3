"""Runs the queries of profiler/trace/store/queries.md on a trace file and prints their rows: one JSON list of lists per query."""

import json
import re
import sqlite3
import sys


def main():
    trace, document = sys.argv[1:3]
    with open(document, encoding="utf-8") as file:
        queries = re.findall(r"```sql\n(.*?)```", file.read(), re.DOTALL)
    connection = sqlite3.connect(f"file:{trace}?mode=ro", uri=True)
    for query in queries:
        print(json.dumps(connection.execute(query).fetchall()))


if __name__ == "__main__":
    main()

"""Changes of files that keep them valid as JSON, as SQLite or as a zip, and what may be said of them."""
import json
import re
import sqlite3

INTERNAL = re.compile(r"INTERNAL ASSERT|Exception raised|csrc/|aten/src|torch::jit|c10::|vector::|basic_string|std::|this is a bug|json\.exception"
                      r"|terminate called|Traceback|stack smashing")
ODD = [0, -1, 1, 2**31, 2**63 - 1, -(2**63), 1.5, 1e308, -1e-308, True, None, "", "x", "torch.ops.aten.from_file.default", "../../etc/passwd", "\u202e\x1b[2J",
       "9" * 400, [], {}, [[]] * 3, {"a": 1}]


def change_bytes(chance, content):
    content = bytearray(content)
    kind = chance.choice(["bit", "bit", "cut", "twice", "more", "byte"])
    for _ in range(chance.choice([1, 1, 2, 5])):
        if not content:
            break
        place = chance.randrange(len(content))
        if kind == "bit":
            content[place] ^= 1 << chance.randrange(8)
        elif kind == "cut":
            del content[place:place + chance.choice([1, 4, len(content)])]
        elif kind == "twice":
            content[place:place] = content[place:place + 20]
        elif kind == "more":
            content[place:place] = bytes(chance.randrange(256) for _ in range(3))
        else:
            content[place] = chance.choice([0, 255, 0x4B, ord("t"), ord("9"), ord("-")])
    return bytes(content)


def places_in(value, found):
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        found.append((value, key))
        if isinstance(item, (dict, list)):
            places_in(item, found)
    return found


def changed_number(chance, number):
    kind = chance.random()
    if kind < 0.5:
        return number + chance.choice([-1, 1, 7, 1000])
    return number * chance.choice([-1, 2, 1000, 1e-9]) if kind < 0.8 else chance.choice(ODD)


def change_json(chance, content):
    """Valid JSON in which one or two values are others, are gone, or stand in two places."""
    document = json.loads(content)
    for _ in range(chance.choice([1, 1, 2])):
        places = places_in(document, [])
        if not places:
            break
        holder, key = chance.choice(places)
        kind = chance.random()
        if kind < 0.15:
            del holder[key]
        elif kind < 0.35:
            other, at = chance.choice(places)
            holder[key] = json.loads(json.dumps(other[at]))
        elif isinstance(holder[key], (int, float)) and kind < 0.8:
            holder[key] = changed_number(chance, holder[key])
        else:
            holder[key] = chance.choice(ODD)
    return json.dumps(document).encode()


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def odd_value(chance, old):
    kind = chance.random()
    if isinstance(old, (int, float)) and kind < 0.6:
        value = changed_number(chance, old)
    elif isinstance(old, str) and old.startswith(("{", "[")) and kind < 0.8:
        return change_json(chance, old).decode()
    else:
        value = chance.choice([None, 0, -1, 2**63 - 1, -(2**63), 9e999, 1e-300, "", "x", "\u202e\x1b[2J", "9" * 400, b"\x00\xff", True])
    if isinstance(value, (list, dict)):
        return json.dumps(value)
    return max(min(value, 2**63 - 1), -(2**63)) if isinstance(value, int) else value


def change_database(chance, path):
    """A whole SQLite file in which a few values are odd, or rows, columns or tables are missing, added or have other names."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        for _ in range(chance.choice([1, 1, 2, 4])):
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
            full = [name for name in tables if database.execute(f"SELECT 1 FROM {quoted(name)} LIMIT 1").fetchone()]
            try:
                change_table(chance, database, chance.choice(full or tables))
            except sqlite3.Error:
                pass  # the schema does not let it: another change counts
    database.close()


def change_table(chance, database, table):
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({quoted(table)})")]
    column, kind, where = chance.choice(columns), chance.random(), quoted(table)
    rows = database.execute(f"SELECT count(*) FROM {where}").fetchone()[0]
    number = chance.randrange(max(1, rows))
    row = f"(SELECT rowid FROM {where} LIMIT 1 OFFSET {number})"
    if kind < 0.6:
        old = database.execute(f"SELECT {quoted(column)} FROM {where} WHERE rowid = {row}").fetchone()
        database.execute(f"UPDATE {where} SET {quoted(column)} = ? WHERE rowid = {row}", (odd_value(chance, old[0] if old else None),))
    elif kind < 0.7:
        database.execute(f"UPDATE {where} SET {quoted(column)} = ?", (odd_value(chance, 1),))
    elif kind < 0.78:
        database.execute(f"DELETE FROM {where} WHERE rowid = {row}" if chance.random() < 0.7 else f"DELETE FROM {where}")
    elif kind < 0.86:
        database.execute(f"INSERT INTO {where} SELECT * FROM {where} WHERE rowid = {row}")
    elif kind < 0.9:
        database.execute(f"ALTER TABLE {where} DROP COLUMN {quoted(column)}")
    elif kind < 0.94:
        database.execute(f"ALTER TABLE {where} RENAME COLUMN {quoted(column)} TO other")
    elif kind < 0.97:
        database.execute(f"DROP TABLE {where}")
    else:
        database.execute(f"ALTER TABLE {where} RENAME TO other")


def fault_of(code, out, errors, codes):
    """What is wrong with how a command ended that read a changed file; "" for nothing."""
    last = errors.strip().splitlines()[-1] if errors.strip() else ""
    if code not in codes:
        return f"code {code}: {last}"
    if found := INTERNAL.search(out + errors):
        return f"{found[0]!r} in: {last or out[:300]}"
    # Without a result the last line is an error with its remedy.
    return "" if code == 0 or out.strip() or re.match(r"mptune: .+: .+; .+", last) else f"no remedy: {last}"

"""run_notebook.py NOTEBOOK: runs the code cells of a notebook in the current folder, as Jupyter does: the value of a cell's last line is
shown, in HTML where it has some. Budgets are of 12 s, or as long as the machine's load asks for: a study that gets no processor ends without a
trace."""
import ast
import json
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from patience import patience


def run(source, names):
    """The value of the last line, None if it is no expression."""
    parts = ast.parse(source)
    last = parts.body.pop() if parts.body and isinstance(parts.body[-1], ast.Expr) else None
    exec(compile(parts, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
    names, pages = {"__name__": "__main__"}, 0
    for cell in cells:
        source = re.sub(r'budget="\d+s"', f'budget="{patience(12):.0f}s"', "".join(cell["source"]))
        value = run(source, names)
        page = value._repr_html_() if hasattr(value, "_repr_html_") else ""
        pages += "<svg" in page or "&lt;svg" in page
        print(f"[{len(page)} characters of HTML]" if page else value, flush=True)
    if pages < 2:
        sys.exit(f"{pages} cells show a picture")


if __name__ == "__main__":
    main()

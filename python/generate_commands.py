"""Writes the package's module _commands: commands.py.in, with the program's options as parameters of the functions. The build runs it:

    python3 python/generate_commands.py build/release/share/mptune/options.json python/commands.py.in build/release/python/mptune/_commands.py

Lines `@options@` stand for all options of the function's command that the function does not name itself, in its signature or docstring.
"""
import json
import pathlib
import re
import sys
import textwrap

WIDTH = 140
COMMANDS = {"import_trace": "import"}  # function -> command, where the names differ
LEFT_OUT = {"help", "version", "json", "quiet", "color", "with"}  # of the output, which is JSON; progress and lists take their place
TYPES = {"devices": "Names", "cut_at": "Names", "cuts": "Numbers", "recompute": "Numbers", "offload": "Numbers", "replicas": "Numbers",
         "memory": "Memory", "link": "Link", "input": "Shape", "loss": "Loss", "data": "Path"}
TYPES_OF_WORDS = {"": "bool", "N": "int", "K": "int", "V": "int", "M": "int", "S": "int", "X": "float", "PCT": "float", "TIME": "Time",
                  "FILE": "Path", "PATH": "Path", "FOLDER": "Path", "NAME|FILE": "Path", "PATH|SHARE": "Path"}
NOT_OF = {"check": {"runtime"}, "profile": {"estimate"}, "simulate": {"from", "stages", "virtual", "cuts", "microbatches", "schedule"}}  # function -> options of the command for which another function stands
# What Python takes besides the text of the program.
ALSO = {"Names": "Or a list of these.", "Numbers": "Or a list of numbers.", "Memory": 'Or bytes, or a dict: {"cpu:0": "1GiB"}.',
        "Link": "Or bytes per second and seconds: (12e9, 10e-6).", "Shape": "Or a tuple: (3, 64, 64).", "Time": "Or seconds."}
PROGRESS = "progress: print progress to sys.stderr; else warnings only."
FUNCTION = re.compile(r'^def (\w+)\(\n((?:    .*\n)+?)\) -> (\w+):\n    """((?:.|\n)*?)"""\n', re.MULTILINE)


def name_of(option):
    return option["names"][-1].lstrip("-").replace("-", "_")


def type_of(option):
    return TYPES.get(name_of(option)) or TYPES_OF_WORDS.get(option["type"], "str")


def parameter(option):
    kind = type_of(option)
    return f"{name_of(option)}: bool = False" if kind == "bool" else f"{name_of(option)}: {kind} | None = None"


def description(option, of_module):
    """of_module: the function takes an nn.Module with its inputs."""
    name, kind = name_of(option), type_of(option)
    text = re.sub(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)", lambda word: f"`{word[1].replace('-', '_')}`", option["help"])
    text = text.replace(" -o", " `output`").replace("; default: ", ". Default: ")
    if of_module and name == "batch":
        text = text.replace("Default: the", "Default: that of `inputs`, else the")
    if of_module and name == "loss":
        text = "of an nn.Module: a function of its output and the target, the last of `inputs`. Else " + text
    meaning, default, value = (text + ".").partition(" Default: ")
    return " ".join(filter(None, [f"{name}: {meaning}", ALSO.get(kind), default.strip(), value]))


def wrapped(text, first, rest):
    """A no-break space stands for a blank at which no line ends."""
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\xa0", " ")


def function_text(found, options):
    name, signature, result, document = found.groups()
    if "@options@" not in signature:
        return found[0]
    own = options[COMMANDS.get(name, name)] + [option for option in options[""] if name_of(option) not in LEFT_OUT]
    own = [option for option in own if name_of(option) not in LEFT_OUT | NOT_OF.get(name, set())]
    in_signature = [option for option in own if not re.search(rf"\b{name_of(option)}:", signature)]
    in_document = [option for option in own if not re.search(rf"^    (\w+, )?{name_of(option)}[:,]", document, re.MULTILINE)]
    parameters = ", ".join(text.replace(" ", "\xa0") for text in [*map(parameter, in_signature), "progress: bool = True"]) + ","
    descriptions = [wrapped(description(option, "inputs:" in signature), "    ", "        ") for option in in_document]
    signature = signature.replace("    @options@", wrapped(parameters, "    ", "    "))
    document = document.replace("    @options@", "\n".join([*descriptions, "    " + PROGRESS]))
    return f'def {name}(\n{signature}) -> {result}:\n    """{document}"""\n'


def flags(options, template):
    named = {COMMANDS.get(found[1], found[1]) for found in FUNCTION.finditer(template) if "@options@" in found[2]}
    return {name_of(option) for command in (*named, "") for option in options[command]
            if not option["type"] and name_of(option) not in LEFT_OUT}


if __name__ == "__main__":
    options = json.loads(pathlib.Path(sys.argv[1]).read_text())
    template = pathlib.Path(sys.argv[2]).read_text()
    text = FUNCTION.sub(lambda found: function_text(found, options), template)
    names = wrapped(", ".join(f'"{name}"' for name in sorted(flags(options, template))), "    ", "    ")
    pathlib.Path(sys.argv[3]).write_text(text.replace("    @flags@", names))

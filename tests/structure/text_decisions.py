"""A decision never reads a text that was written for a person.

What an exception says (`what()`, `problem()`) is printed or handed on, and only the places below touch it. Messages, reasons and other sentences are never
searched or compared: whoever needs to decide by them carries a value beside the text.

Usage: text_decisions.py ROOT     checks a tree, one line per offence, exit 1 if there is one
       text_decisions.py --self   checks the checker
"""
import pathlib
import re
import sys
import tempfile

FOLDERS = ["profiler", "planner", "tuner", "reports"]

# Files that print what an exception says or hand it on, and what for; with its folder where a name alone says too little.
HANDS_ON = {
    "class_costs.cc": "a warning of what was not measured",
    "command_doctor.cc": "a finding for people",
    "command_profile_program.cc": "a warning of what was not recorded",
    "cuda_kernels.cc": "hands on why a kernel can't be made",
    "cuda_lanes.cc": "adds the GPU that cannot be used",
    "cuda_injection.cc": "the injected library's only output",
    "doctor.cc": "a finding for people",
    "estimate.cc": "adds that it was an estimate",
    "config_file.cc": "puts the lines of a file in the place of options",
    "exported/archive.cc": "says what is wrong with a file",
    "exported/graph.cc": "adds the node that failed",
    "exported/layer.cc": "adds the layer that failed",
    "fit_errors.cc": "adds what would fit",
    "gloo_group.cc": "adds the rank that cannot be reached",
    "rank_store.cc": "adds where the ranks meet",
    "layer_costs.cc": "the reason why a model cannot run",
    "main.cc": "prints the error, or sends it to mptune",
    "messages.cc": "adds the broken line",
    "option_names.cc": "puts options in the place of fields",
    "plugin.cc": "adds the plug-in that failed",
    "program.cc": "prints what is wrong with an option",
    "read.cc": "adds the file that cannot be read",
    "record_traces.cc": "a warning of what was not recorded",
    "load_script.cc": "adds the file that cannot be loaded",
    "script/layer.cc": "hands on what a script raises",
    "series.cc": "the reason of an infeasible plan, for people",
    "state_message.cc": "says what is wrong with a message",
    "step_recorder.cc": "a warning of what was not recorded",
    "study.cc": "adds the study that cannot be used",
    "torch_file.cc": "adds the file that cannot be read",
    "train.cc": "adds where in the step it failed",
    "tune_options.cc": "adds the command that goes on",
    "tune_phases.cc": "adds the phase in which the budget ended",
    "write.cc": "adds the file that cannot be written",
}

# Texts of other programs that come without a value: (file, a part of the line, why).
NO_VALUE = [
    ("plugin.cc", "reason.", "dlerror() is all that the loader says"),
    ("gpu_library.cc", "message.", "dlerror() is all that the loader says"),
    ("load_script.cc", "found '^'", "LibTorch's parser throws one type for everything"),
    ("load_script.cc", "text.find(sign)", "LibTorch's parser throws one type for everything"),
    ("library_message.cc", "INTERNAL ASSERT FAILED", "decides nothing: shortens what is shown"),
    ("library_message.cc", "Exception raised from", "decides nothing: shortens what is shown"),
    ("summary.cc", "does not fit", "studies of earlier versions hold the sentence alone"),
    ("worker_death.cc", "Killed process ", "the kernel's log is all that says why it killed a process"),
    ("any_trace.cc", "PP rank ", "the name that Megatron-LM gives its events in a file"),
]

WHAT = re.compile(r"(?:\.|->)(?:what(?:_without_backtrace)?|problem)\(\)")
# A variable, a member or a function whose name says that it holds words for people.
WORDS = (r"\w*(?:what|reason|why|why_not|message|last_words|remedy|advice|warning|refusal|problem|sentence|explanation|complaint|left_out|"
         r"not_raced|not_benchmarked|error_text)_?(?:\(\))?")
SEARCH = r"\s*\.\s*(?:find|rfind|find_first_of|starts_with|ends_with|contains|compare)\s*\("
SEARCHES_WORDS = re.compile(r"\b" + WORDS + SEARCH)
# Compared with a text: a literal that is not empty, or a constant.
COMPARES_WORDS = re.compile(r"\b" + WORDS + r"\s*[=!]=\s*(?:\"[^\"]|k[A-Z]\w*)|(?:\"[^\"]+\"|\bk[A-Z]\w*)\s*[=!]=\s*(?:\w+(?:\.|->))*" + WORDS + r"\b")
# Any text that is searched for, or compared with, a phrase: two words with a space between them.
PHRASE = r"\"[^\"]*[A-Za-z]{2,} ['A-Za-z^][^\"]*\""
SEARCHES_PHRASE = re.compile(r"(?:find|rfind|starts_with|ends_with|contains|compare)\s*\(\s*" + PHRASE + r"|[=!]=\s*" + PHRASE)
# What an exception says is compared or searched at once, or by a variable that holds it.
AT_ONCE = re.compile(WHAT.pattern + r"\)?\s*(?:[=!]=|\.\s*(?:find|rfind|starts_with|ends_with|contains|compare|substr)\s*\()")
HELD = re.compile(r"\b(\w+)\s*(?:=|\(|\{)\s*[^;=]*" + WHAT.pattern)
STRCMP = re.compile(r"\bstr(?:str|cmp|ncmp)\s*\([^;]*" + WHAT.pattern)
REGEX = re.compile(r"\bregex_(?:search|match)\s*\([^;]*(?:" + WHAT.pattern + r"|\b" + WORDS + r"\b)")


# Only the first line of a text is shown: no decision.
FIRST_LINE = re.compile(r"\w+\.substr\(0, \w+\.find\('\\n'\)\)")


def code_of(line):
    """Without a comment. A `//` within a literal is rare and costs only what stands behind it."""
    return FIRST_LINE.sub("first_line", re.sub(r"(?<![:\"])//.*", "", line))


def searches(variable):
    # An erased or cut text is still for people: only a test of its contents is a decision.
    return re.compile(r"\b" + re.escape(variable) + r"(?:\.\s*(?:starts_with|ends_with|contains|compare)\s*\(|\.\s*r?find\s*\(\s*\"|\s*[=!]=\s*\")")


def offences_of(path, text, used):
    lines = [code_of(line) for line in text.splitlines()]
    with_folder = "/".join(path.parts[-2:])
    name = with_folder if with_folder in HANDS_ON else path.name
    held = []
    for number, line in enumerate(lines, 1):
        def offence(what, number=number, line=line):
            return f"{path}:{number}: {what}: {line.strip()}"

        allowed = [entry for entry in NO_VALUE if entry[0] == name and entry[1] in line]
        used.update(allowed)
        if WHAT.search(line):
            used.add(name)
            if name not in HANDS_ON:
                yield offence("what an exception says is read here, and the file is none that prints it or hands it on")
            held += [(found.group(1), number) for found in HELD.finditer(line) if found.group(1) not in ("Error", "string", "if", "return")]
        if AT_ONCE.search(line) or STRCMP.search(line) or REGEX.search(line):
            yield offence("a decision reads what an exception says")
        elif not allowed and (SEARCHES_WORDS.search(line) or COMPARES_WORDS.search(line)):
            yield offence("a decision reads a text for people")
        elif not allowed and SEARCHES_PHRASE.search(line):
            yield offence("a text is searched for a phrase")
        elif any(number - since < 30 and searches(variable).search(line) for variable, since in held):
            yield offence("a decision reads what an exception says")


def check(root):
    used, found = set(), []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                found += offences_of(path.relative_to(root), path.read_text(), used)
    return found, used


def stale(used):
    """An exception that nothing needs any more would hide the next offence."""
    for entry in [name for name in HANDS_ON if name not in used] + [entry for entry in NO_VALUE if entry not in used]:
        yield f"text_decisions.py: nothing needs this exception any more: {entry}"


OFFENCES = [
    'if (std::string(error.what()).find("out of memory") != npos) return true;',
    'if (error.what() == std::string("x")) return;',
    'if (error.problem().find("out of memory") != npos) return true;',
    'const std::string text = error.problem();\nif (text.starts_with(kBegin)) return;',
    'const std::string text = error.what();\nif (text.starts_with(kBegin)) return;',
    'const std::string text = error.what_without_backtrace();\nreturn text.find("CUDA") != npos;',
    'if (std::strstr(error.what(), "memory") != nullptr) return;',
    'if (row.why_not.starts_with(kTooLarge)) continue;',
    'if (family.why_not == kRowsDecide) continue;',
    'if (kRowsDecide == family.why_not) continue;',
    'if (infeasible->reason == "no plan") return;',
    'if (result.stop_reason.contains("budget")) return;',
    'if (error.remedy().find("--memory") != npos) return;',
    'if (advice.ends_with("memory")) return;',
    'if (trial.name.starts_with("copy gradient")) return;',
    'if (outcome_text(outcome).find("out of memory") != npos) return;',
    'if (text == "does not fit") return;',
    'std::regex_search(error.what(), match, pattern);',
]
SOUND = [
    'throw Error(std::string("it cannot be read: ") + error.what(), path, "try again");',
    'std::string text = failed.what();\ntext.erase(text.find_last_not_of(" \\n") + 1);',
    'if (row.why_not.empty()) continue;',
    'if (reason == ENOENT) return;',
    'if (event.kind == EventKind::forward) return;',
    'if (name.starts_with("aten::")) return;',
    '// if (error.what() == "x") is what nobody does',
    'row.why_not = outcome_text(failed->outcome);',
    'const auto colon = text.find(": ");',
    "return message.substr(0, message.find('\\n'));",
]


def self_check():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "planner").mkdir()
        for text in OFFENCES + SOUND:
            # A file that may hand on what an exception says must not read it either.
            (root / "planner/main.cc").write_text(text + "\n")
            assert bool(check(root)[0]) == (text in OFFENCES), (text, check(root)[0])
        (root / "planner/main.cc").write_text("")
        (root / "planner/new.cc").write_text("print(error.what());\n")
        assert len(check(root)[0]) == 1, "a file that is not listed"
        assert len(list(stale(set()))) == len(HANDS_ON) + len(NO_VALUE) and not list(stale(set(HANDS_ON) | set(NO_VALUE)))


if __name__ == "__main__":
    if sys.argv[1] == "--self":
        self_check()
        sys.exit(0)
    lines, needed = check(pathlib.Path(sys.argv[1]))
    lines += stale(needed)
    print("\n".join(lines) or "no decision reads a text for people")
    sys.exit(1 if lines else 0)

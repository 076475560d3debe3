"""Places of the product's GPU code that leave_out.py can leave out: how they are found, and what stands there instead."""
import dataclasses
import re

FOLDERS = ("profiler/device/**/*", "profiler/measure/*", "profiler/model/layers/*", "tuner/check/*", "tuner/runtime/*", "tuner/runtime/graph/*", "tuner/runtime/stage/*",
           "tuner/runtime/step/*", "tuner/runtime/ranks/*", "tuner/runtime/between/*")
# Included by every test, and only what the places below call.
EXCLUDED = ("profiler/device/moment.h",)
NOTHING, NO_MOMENT = "void()", "::mptune::MomentPtr()"
GPU, STREAM = "c10::cuda::current_device()", "c10::cuda::getCurrentCUDAStream().unwrap()"


@dataclasses.dataclass
class Pattern:
    """A call whose name and opening parenthesis `regex` finds, and its value when it is left out; or, of guards, the argument."""
    what: str
    regex: str
    instead: str
    argument: bool = False
    # Both ways of a conditional expression have one type.
    cast: str = ""


PATTERNS = (
    Pattern("a stream waits", r"(?<!void )\bhold\(", NOTHING),
    Pattern("a stream waits", r"->block\(", NOTHING),
    Pattern("a device waits", r"(?:\.|->)after\(", NOTHING),
    Pattern("a device waits", r"(?<!void )(?<![\w.>:])after\(", NOTHING),
    Pattern("a device waits", r"(?:\.|->)after_caller\(", NOTHING),
    Pattern("the host waits", r"(?<!void )(?<![\w.>])(?:wait_for|wait_at_end)\(", NOTHING),
    Pattern("the host waits", r"\bready->wait\(", NOTHING),
    Pattern("the host waits", r"\b\w+_(?:->|\.)synchronize\(", NOTHING),
    Pattern("the host asks", r"(?<!bool )(?<![\w.>])reached\(", "true"),
    Pattern("the host asks", r"->query\(", "true"),
    Pattern("an event", r"\bevent->record\(", NOTHING),
    Pattern("an event", r"(?<!MomentPtr )\bnow_on\(", NO_MOMENT),
    Pattern("an event", r"(?<!Clock)(?:\.|->)now\((?=\))(?!\) ==)", NO_MOMENT),
    Pattern("an event", r"(?:\.|->)now_of_caller\(", NO_MOMENT),
    Pattern("a reader's record", r"\.record_stream\(", NOTHING),
    Pattern("a reader's record", r"\breading_\.push_back\(", NOTHING),
    Pattern("a reader's record", r"\breading_\.emplace_back\(", "tensor.contiguous()"),
    Pattern("a GPU's guard", r"\bCUDAGuard guard\(", GPU, True, "static_cast<c10::DeviceIndex>"),
    Pattern("a stream's guard", r"\bCUDAStreamGuard guard\(", STREAM, True, "static_cast<c10::Stream>"),
    Pattern("a stream's guard", r"(?<=: )guard_\(", STREAM, True, "static_cast<c10::Stream>"),
)
CLOSING = {")": "(", "]": "["}


@dataclasses.dataclass
class Place:
    number: int
    file: str
    line: int
    begin: int
    end: int
    code: str
    pattern: Pattern

    @property
    def name(self):
        return f"{self.file}:{self.line} {self.code}"

    def left_out(self):
        """The code that asks at run time."""
        code = f"{self.pattern.cast}({self.code})" if self.pattern.cast else self.code
        return f"(::mptune::left_out({self.number}) ? {self.pattern.instead} : {code})"


def end_of_call(text, opening):
    """Behind the parenthesis that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at + 1
    raise ValueError("a parenthesis isn't closed")


def begin_of_object(text, at):
    """Where the expression begins whose end is before `at`, such as `a(b).c[d]`."""
    depth = 0
    while at > 0:
        before = text[at - 1]
        if before in CLOSING:
            depth += 1
        elif depth > 0:
            depth -= before in CLOSING.values()
        elif not (before.isalnum() or before in "_.:" or text[at - 2:at] == "->" or text[at - 1:at + 1] == "->"):
            break
        at -= 1
    return at


def found_in(text):
    """Begin, end and pattern of each place."""
    for pattern in PATTERNS:
        for match in re.finditer(pattern.regex, text):
            if "//" in text[text.rfind("\n", 0, match.start()) + 1:match.start()]:
                continue
            end = end_of_call(text, match.end() - 1)
            yield (match.end(), end - 1, pattern) if pattern.argument else (begin_of_object(text, match.start()), end, pattern)


def places_of(root):
    places = []
    files = sorted(path for folder in FOLDERS for path in root.glob(folder) if path.suffix in (".cc", ".h"))
    for path in files:
        file, text = str(path.relative_to(root)), path.read_text()
        for begin, end, pattern in sorted(found_in(text), key=lambda found: found[:2]) if file not in EXCLUDED else ():
            places.append(Place(len(places), file, text.count("\n", 0, begin) + 1, begin, end, text[begin:end], pattern))
    return places


def nested(place, text, others):
    """The text of a place, with places in its arguments replaced as well."""
    inner = [other for other in others if place.begin <= other.begin and other.end <= place.end and other is not place]
    code, shift = place.code, -place.begin
    for other in inner:
        if any(other is not outer and outer.begin <= other.begin and other.end <= outer.end for outer in inner):
            continue
        new = nested(other, text, inner)
        code = code[:other.begin + shift] + new + code[other.end + shift:]
        shift += len(new) - (other.end - other.begin)
    return dataclasses.replace(place, code=code).left_out()


def rewritten(text, places):
    """A source in which each place asks whether it is left out."""
    outer = [place for place in places
             if not any(other is not place and other.begin <= place.begin and place.end <= other.end for other in places)]
    for place in sorted(outer, key=lambda place: -place.begin):
        text = text[:place.begin] + nested(place, text, places) + text[place.end:]
    include = '#include "tests/emulation/left_out.h"\n'
    return text.replace("#pragma once\n", "#pragma once\n" + include, 1) if "#pragma once\n" in text else include + text

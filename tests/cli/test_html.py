"""The HTML reports: one file that answers, refers to nothing outside of it, and works in a browser without a network."""
import html.parser
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import jsonschema
from harness import CommandTest, patience, schema

TUNE = ["tune", "toy", "--devices", "sleep:2", "--budget", "60s", "--trials", "6"]
TUNED = {}
VOID = {"meta"}
BROWSER = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)


class Page(html.parser.HTMLParser):
    """A page's elements: text by id, tables by id, every reference."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.texts, self.references, self.scripts, self.rows = [], {}, [], 0, []
        self.faults = []
        self.feed(text)
        self.close()
        self.faults += [f"{name} is not closed" for name, _ in self.open]

    def handle_starttag(self, name, attributes):
        values = dict(attributes)
        self.references += [values[key] for key in ("src", "href", "action", "data", "srcset", "poster") if key in values]
        self.scripts += name == "script"
        if name not in VOID:
            self.open.append((name, values.get("id")))
        if name == "tr":
            self.rows.append([])
        if name == "td":
            self.rows[-1].append("")

    def handle_startendtag(self, name, attributes):
        pass  # drawn shapes

    def handle_endtag(self, name):
        if not self.open or self.open[-1][0] != name:
            self.faults.append(f"</{name}> closes {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_data(self, data):
        for _, identifier in self.open:
            if identifier:
                self.texts[identifier] = self.texts.get(identifier, "") + data
        if self.open and self.open[-1][0] == "td":
            self.rows[-1][-1] += data

    def text(self, identifier):
        return " ".join(self.texts[identifier].split())


class PageTest(CommandTest):
    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def page(self, name):
        text = self.read(name)
        page = Page(text)
        self.assertEqual(page.faults, [], name)
        self.assertTrue(text.startswith("<!doctype html>\n<!-- mptune report -->"))
        self.assertEqual([one for one in page.references if not one.startswith("#")], [], "a reference to something outside")
        self.assertNotRegex(text, r"https?:|@import|url\((?!#)")
        self.assertEqual(page.scripts, 1)
        return page

    def tuned(self):
        """What tune said of the study that is now in the folder; tuned once for all tests."""
        if not TUNED:
            TUNED["value"] = self.result("tune", *TUNE)
            kept = tempfile.mkdtemp(prefix="mptune-test-")
            unittest.addModuleCleanup(shutil.rmtree, kept, ignore_errors=True)
            TUNED["folder"] = shutil.copytree(self.path("toy.study"), os.path.join(kept, "toy.study"))
        if not os.path.exists(self.path("toy.study")):
            shutil.copytree(TUNED["folder"], self.path("toy.study"))
        return TUNED["value"]


class HtmlReport(PageTest):
    def test_a_study(self):
        value = self.tuned()
        self.assertEqual(value["report"], os.path.join("toy.study", "report.html"))
        page = self.page(value["report"])
        single = next(one for one in value["baselines"] if one["name"] == "single_device")
        answer = page.text("answer")
        if single["plan_key"] != value["recommended"]["plan_key"]:
            self.assertIn(value["recommended"]["description"][1:] + ": ", answer)
            if single["speedup"]["ci95"] is not None:
                low, high = single["speedup"]["ci95"]
                self.assertIn(f" one device within 2 % (95 % interval {low:.2f} to {high:.2f})" if single["speedup"]["verdict"] == "SAME"
                              else f" one device (95 % interval {low:.2f} to {high:.2f})", answer)
        self.assertRegex(page.text("next"), "mptune profile toy --plan toy[.]study/toy[.]plan[.]json")
        for section in ("baselines", "split", "timeline", "devices", "memory", "partition", "prediction", "environment", "method", "words"):
            self.assertNotEqual(page.text(section), "", section)
        trials = [row for row in page.rows if len(row) == 9]
        self.assertEqual([int(row[0]) for row in trials], [one["id"] for one in value["trials"]])
        for row, one in zip(trials, value["trials"]):
            self.assertEqual(row[8], "measured" if one["why_not"] is None else one["why_not"])
        shown = self.succeed(*TUNE, "--resume")
        self.assertIn("\nreport  " + value["report"] + "\n", shown)
        self.assertEqual(self.result("report", "report", "toy.study", "-o", "again.html")["files"], ["again.html"])
        self.page("again.html")

    def test_a_trace_and_a_plan(self):
        self.assertEqual(self.succeed("report", "trace.sqlite", "-o", "trace.HTM"), "trace.HTM\n")
        page = self.page("trace.HTM")
        self.assertRegex(page.text("answer"), r"^[0-9.]+ % of the devices' time is idle")
        self.assertIn("stage", page.text("details"))
        self.succeed("report", "plan.json", "-o", "plan.html")
        page = self.page("plan.html")
        self.assertEqual(page.text("answer"), "Pipeline of 2 stages, 1f1b, 4 micro-batches of 2: neither predicted nor measured.")
        self.assertIn("0F0", page.text("schedule"))

    def test_data(self):
        self.tuned()
        for source, kind, name in (("toy.study", "study", "tune"), ("trace.sqlite", "trace", "import"), ("plan.json", "plan", "plan")):
            value = self.result("report", "report", source)
            self.assertEqual(value["kind"], kind)
            self.assertEqual(value["files"], [])
            jsonschema.validate(value["data"], schema(name))
        self.assertEqual(self.result("report", "report", "plan.json")["data"], json.loads(self.read("plan.json")))
        self.assertEqual(self.result("report", "report", "trace.sqlite")["data"], self.result("import", "import", "trace.sqlite"))

    def test_without_a_choice_it_is_text(self):
        self.tuned()
        for source in ("toy.study", "trace.sqlite", "plan.json"):
            self.assertEqual(self.succeed("report", source), self.succeed("report", source, "--text"))
            self.assertNotEqual(self.succeed("report", source, "--markdown"), self.succeed("report", source, "--text"))

    def test_other_files_are_left_alone(self):
        with open(self.path("mine.html"), "w") as file:
            file.write("<!doctype html>\n<p>mine</p>")
        self.fails(2, ["mine.html", "--force"], "report", "trace.sqlite", "-o", "mine.html")
        self.assertEqual(self.read("mine.html"), "<!doctype html>\n<p>mine</p>")
        self.succeed("report", "trace.sqlite", "-o", "mine.html", "--force")
        self.page("mine.html")
        self.succeed("report", "plan.json", "-o", "mine.html")
        self.fails(2, ["trace.html"], "report", "trace.sqlite", "-o", "trace.html", "--text")
        self.fails(2, ["trace.html"], "report", "trace.sqlite", "-o", "trace.html", "--markdown")
        self.assertFalse(os.path.exists(self.path("trace.html")))

    def test_hostile_names(self):
        plan = json.loads(self.read("plan.json"))
        for stage in plan["plan"]["stages"]:
            stage["modules"] = ["</script><script>alert(1)</script>", "</svg>\"'&"]
            stage["first_module"] = stage["modules"][0]
        with open(self.path("<img src=x onerror=alert(1)>.plan.json"), "w") as file:
            json.dump(plan, file)
        self.succeed("report", "<img src=x onerror=alert(1)>.plan.json", "-o", "hostile.html")
        page = self.page("hostile.html")
        self.assertIn("</script><script>alert(1)</script>", page.text("partition"), "as text")
        shutil.copy(self.path("trace.sqlite"), self.path("<b onclick='x'>.sqlite"))
        self.succeed("report", "<b onclick='x'>.sqlite", "-o", "hostile.html")
        self.page("hostile.html")


@unittest.skipIf(BROWSER is None, "no chromium, chromium-browser or google-chrome in PATH")
class InABrowser(PageTest):
    """The same pages as a browser sees them that finds no network."""

    def shown(self, name, log):
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                               "--disable-component-update", "--disable-sync", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND",
                               f"--user-data-dir={self.path('browser')}", f"--log-net-log={self.path(log)}", "--dump-dom",
                               "file://" + self.path(name)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=patience(100), env=self.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_it_answers_sorts_and_asks_for_nothing(self):
        self.tuned()
        name = os.path.join("toy.study", "report.html")
        text = self.read(name)
        # A second script, after the page's own, presses the title of the column of steps twice.
        press = "<script>const head = document.querySelectorAll('#trial-table th button')[4]; head.click(); head.click();</script>"
        with open(self.path("pressed.html"), "w", encoding="utf-8") as file:
            file.write(text.replace("</body>", press + "</body>"))
        seen = Page(self.shown("pressed.html", "net.json"))
        self.assertEqual(seen.text("answer"), self.page(name).text("answer"))
        before = [row for row in Page(text).rows if len(row) == 9]
        after = [row for row in seen.rows if len(row) == 9]
        self.assertEqual(sorted(before), sorted(after), "no row is lost")

        def seconds(row):
            number, unit = row[4].split()
            return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]

        steps = [seconds(row) for row in after if row[4] != "-"]
        self.assertGreater(len(steps), 3)
        self.assertEqual(steps, sorted(steps, reverse=True))
        self.assertIn("copy", seen.text("next"), "the script adds a button")
        self.assertEqual(self.asked_for("net.json"), [])

    def test_a_request_would_be_seen(self):
        with open(self.path("asks.html"), "w") as file:
            file.write('<!doctype html><p id="answer">x</p><img src="http://page.invalid/x.png">')
        self.shown("asks.html", "net.json")
        self.assertIn("http://page.invalid/x.png", self.asked_for("net.json"))

    def asked_for(self, log):
        """Addresses in the browser's log but its own files and the servers of its maker, which it asks for updates whatever it shows."""
        asked = re.findall(r'"url":"((?!file:|chrome|devtools|about:|data:|blob:)[^"]*)"', self.read(log))
        return sorted({url for url in asked if not re.match(r"https?://[a-z0-9.-]*\.(google|googleapis|gvt1)\.com/", url)})

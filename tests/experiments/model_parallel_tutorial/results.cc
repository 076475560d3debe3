#include "tests/experiments/model_parallel_tutorial/results.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <optional>

#include "profiler/trace/statistics/verdict.h"
#include "tests/support/svg.h"

namespace {

// "1.02 [0.99, 1.05]"; of few rounds without an interval.
std::string with_interval(const mptune::Speedup& speedup) {
  std::array<char, 64> text{};
  if (speedup.ci95)
    std::snprintf(text.data(), text.size(), "%.2fx [%.2f, %.2f]", speedup.estimate, speedup.ci95->low, speedup.ci95->high);
  else
    std::snprintf(text.data(), text.size(), "%.2fx", speedup.estimate);
  return text.data();
}

// Step time relative to the single device's.
void add_ratio(mptune::testing::SvgSeries& series, const Contender& single, const Contender& contender) {
  const mptune::Speedup speedup = mptune::paired_speedup(single.step_s, contender.step_s);
  series.values.push_back(1 / speedup.estimate);
  series.ci95.emplace_back();
  if (speedup.ci95) series.ci95.back() = mptune::Interval{1 / speedup.ci95->high, 1 / speedup.ci95->low};
}

void write(const std::string& path, const std::string& content) {
  if (!(std::ofstream(path) << content)) throw mptune::Error("can't be written", path, "name an existing, writable folder");
  std::printf("%s\n", path.c_str());
}

}  // namespace

void show_results(const std::vector<Contender>& contenders, const std::string& name, const std::string& folder) {
  std::printf("%-22s %10s %22s   %s\n", "", "step", "95 %", "plan");
  mptune::testing::SvgSeries curve{"pipeline", {}, {}}, naive{"naive model parallel", {}, {}};
  mptune::testing::SvgChart line{name + ": step time over split size", "step in seconds", "samples per micro-batch", {}, {}};
  std::vector<const Contender*> points;
  for (const Contender& contender : contenders) {
    const double median = mptune::median(contender.step_s);
    const std::optional<mptune::Interval> ci95 = mptune::interval95(contender.step_s);
    std::printf("%-22s %8.0f ms ", contender.name.c_str(), 1e3 * median);
    if (ci95)
      std::printf("%10.0f to %6.0f ms   ", 1e3 * ci95->low, 1e3 * ci95->high);
    else
      std::printf("%22s   ", "-");
    std::printf("%s\n", mptune::describe(contender.plan).c_str());
    if (contender.split_size == 0) continue;
    points.push_back(&contender);
    line.categories.push_back(std::to_string(contender.split_size));
    curve.values.push_back(median), curve.ci95.push_back(ci95);
    naive.values.push_back(mptune::median(contenders[1].step_s));
  }
  line.series = {curve, naive};
  const auto best = static_cast<std::size_t>(std::min_element(curve.values.begin(), curve.values.end()) - curve.values.begin());
  if (points.size() < 3) throw mptune::Error("too few split sizes to tell", "BATCH", "give a batch of 12 or more");
  const auto& twelfth = *points[points.size() - 3];  // split size 20 of 120
  mptune::testing::SvgSeries here{"here", {}, {}};
  for (const Contender* bar : {&contenders[0], &contenders[1], &twelfth, points[best], &contenders.back()})
    add_ratio(here, contenders[0], *bar);
  mptune::testing::SvgChart bars{
      name + ": step time, single device = 1",
      "time of a step over the single device's",
      "",
      {"single device", "naive model parallel", twelfth.name, "best: " + points[best]->name, "the tuner's choice"},
      {here, {"tutorial, 2 GPUs", {1, 4.02 / 3.75, 2.51 / 3.75, 2.43 / 3.75, std::nullopt}, {}}}};
  const mptune::Speedup choice = mptune::paired_speedup(points[best]->step_s, contenders.back().step_s);
  std::printf("the curve has its minimum at %s, %s\n", points[best]->name.c_str(),
              best > 0 && best + 1 < points.size() ? "inside the range" : "at its END");
  std::printf("the tuner's choice is %s as fast as that: %s\n", with_interval(choice).c_str(),
              choice.verdict == mptune::Verdict::slow ? "SLOWER" : "within the noise, or faster");
  write(folder + "/" + name + "-bars.svg", mptune::testing::svg_bars(bars));
  write(folder + "/" + name + "-curve.svg", mptune::testing::svg_curve(line));
}

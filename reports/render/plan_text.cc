#include "reports/render/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "profiler/base/index.h"
#include "profiler/base/printable.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/pictures.h"
#include "reports/render/report_text.h"
#include "reports/render/search_text.h"
#include "reports/render/table.h"
#include "reports/values/plan_changes.h"

namespace mptune::reports {
namespace {

constexpr int kBarLabel = 7;
constexpr std::size_t kShownAlternatives = 6;
constexpr std::size_t kShownFront = 8;
constexpr std::array kStageColors = {Color::cyan, Color::magenta, Color::yellow, Color::green, Color::blue, Color::red};

Color color_of(int stage) {
  return kStageColors[as_index(stage) % kStageColors.size()];
}

/// Columns [first, last) of a stage in the bar.
struct Segment {
  int stage = 0;
  int first = 0;
  int last = 0;
  double step_s = 0;
};

/// A canvas of three rows: number, bar, time of each stage. Ends are rounded, not lengths, so that the bar is full; a stage has a column
/// at least.
class PartitionBar {
 public:
  PartitionBar(const std::vector<PlannedLayer>& layers, int columns, const TextStyle& style)
      : style_(style), columns_(columns), canvas_(3, columns) {
    for (const PlannedLayer& layer : layers) whole_s_ += layer.step_s;
    double before_s = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      draw_layer(layers[i], i, before_s);
      before_s += layers[i].step_s;
    }
    std::vector<double> times;
    for (const Segment& segment : segments_) times.push_back(segment.step_s);
    const auto [texts, unit] = format_alike(times);
    unit_ = unit;
    for (std::size_t i = 0; i < segments_.size(); ++i) label(segments_[i], texts[i]);
  }

  /// Returns the unit of the times in the last row.
  [[nodiscard]] const std::string& unit() const { return unit_; }

  [[nodiscard]] std::string row(int row) const { return canvas_.row(row, style_); }

 private:
  [[nodiscard]] int column(double time_s) const { return whole_s_ > 0 ? static_cast<int>(std::lround(time_s / whole_s_ * columns_)) : 0; }

  void draw_layer(const PlannedLayer& layer, std::size_t index, double before_s) {
    const bool begins = segments_.empty() || segments_.back().stage != layer.stage;
    int first = std::max(column(before_s), next_);
    const int last = std::max(column(before_s + layer.step_s), first);
    if (begins) {
      segments_.push_back({layer.stage, first, first, 0});
      if (segments_.size() > 1) canvas_.put(1, first++, style_.unicode ? "│" : "|");
    }
    const bool even = index % 2 == 0;
    const char* glyph = style_.unicode ? (even ? "█" : "▓") : even ? "#" : "=";
    for (int at = first; at < last; ++at) canvas_.put(1, at, glyph, color_of(layer.stage));
    next_ = std::max(first, last);
    segments_.back().last = next_;
    segments_.back().step_s += layer.step_s;
  }

  void label(const Segment& segment, const std::string& time) {
    const bool first = segment.first == 0;
    const int room = segment.last - segment.first - (first ? 0 : 1);
    const std::array texts = {std::to_string(segment.stage), time};
    for (int i = 0; i < 2; ++i) {
      const std::string& text = texts[as_index(i)];
      if (!first) canvas_.put(2 * i, segment.first, style_.unicode ? "│" : "|");
      if (static_cast<int>(text.size()) <= room) canvas_.text(2 * i, segment.first + (first ? 0 : 1), text, color_of(segment.stage));
    }
  }

  const TextStyle& style_;
  int columns_;
  Canvas canvas_;
  double whole_s_ = 0;
  int next_ = 0;  // the first free column
  std::vector<Segment> segments_;
  std::string unit_;
};

std::string stage_table(const PlanReport& report, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t s = 0; s < report.stages.size(); ++s) {
    const PlannedStage& stage = report.stages[s];
    rows.push_back({Cell(std::to_string(s), color_of(static_cast<int>(s))), join(stage.devices, " "),
                    stage.last_layer - stage.first_layer == 1 ? std::to_string(stage.first_layer)
                                                              : fmt::format("{} to {}", stage.first_layer, stage.last_layer - 1),
                    format_seconds(stage.step_s), format_percent(report.step_s > 0 ? stage.step_s / report.step_s : 0),
                    format_bytes(stage.peak_bytes), stage.modules});
  }
  return render_table({{"stage", true}, {"devices"}, {"layers"}, {"time", true}, {"of step", true}, {"peak", true}, {"modules"}}, rows,
                      style);
}

std::string recomputed_layers(const PlanReport& report, const TextStyle& style) {
  std::string text;
  for (std::size_t s = 0; s < report.stages.size(); ++s) {
    const PlannedStage& stage = report.stages[s];
    const bool all = std::ssize(stage.recomputed) == stage.last_layer - stage.first_layer;
    if (!stage.recomputed.empty())
      text += hanging(fmt::format("stage {} recomputes ", s), all ? "all its layers" : "layers " + in_ranges(stage.recomputed), style);
  }
  return text;
}

std::string beyond_step(const PlanReport& report, const TextStyle& style) {
  std::string text;
  for (std::size_t s = 0; s < report.stages.size(); ++s)
    if (const std::string& why = report.stages[s].beyond_step; !why.empty())
      text += hanging("", fmt::format("stage {} takes more time than the step: {}", s, why), style);
  return text;
}

std::string paragraph(const std::string& text, const TextStyle& style) {
  return text.empty() ? "" : join(wrap(text, style.width), "\n") + "\n";
}

std::string offloading_stages(const PlanReport& report, const TextStyle& style) {
  std::vector<int> stages;
  for (std::size_t s = 0; s < report.stages.size(); ++s)
    if (report.stages[s].offload) stages.push_back(static_cast<int>(s));
  if (stages.empty()) return "";
  const bool one = stages.size() == 1;
  return paragraph(fmt::format("{} {} {} saved activations: they lie in host memory between forward and backward", one ? "stage" : "stages",
                               in_ranges(stages), one ? "offloads its" : "offload their"),
                   style);
}

std::string outside_of_bounds(const PlanReport& report) {
  std::vector<std::string> kinds;
  if (report.may_fuse) kinds.emplace_back("fused weight gradients");
  if (report.may_offload) kinds.emplace_back("offloading");
  return kinds.empty() ? "" : " without " + join(kinds, " and ");
}

std::string proof(const PlanReport& report) {
  std::string text = fmt::format("predicted step {}", format_seconds(report.step_s));
  const std::string without = outside_of_bounds(report);
  if (report.complete) {
    std::int64_t outside = 0;
    for (const Rejection& rejection : report.rejected) outside += rejection.reason == RejectedAs::rows_decide ? rejection.count : 0;
    text += fmt::format("; optimal under the cost model among {}{}",
                        report.runs ? "runnable plans of the known schedules" : "plans with these options", without);
    text += outside > 0 ? fmt::format(" ({} not covered)", outside) : "";
  } else if (report.lower_bound_s > 0) {
    text += fmt::format("; lower bound of all plans{} {} (gap {})", without, format_seconds(report.lower_bound_s),
                        format_percent(report.step_s / report.lower_bound_s - 1));
  }
  if (report.excess_bytes > 0)
    text += fmt::format("; does not fit: {} needs {} more than it may have", report.excess_device, format_bytes(report.excess_bytes));
  return text + (report.extrapolated ? "; some micro-batch sizes lie outside the profiled ones" : "");
}

std::string signed_percent(double share) {
  return (share < 0 ? "-" : "+") + format_percent(std::abs(share));
}

std::string others(const std::vector<PlannedOther>& plans, std::size_t most, double step_s, const char* what, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < std::min(most, plans.size()); ++i) {
    const PlannedOther& plan = plans[i];
    rows.push_back({format_seconds(plan.step_s), signed_percent(plan.step_s / step_s - 1), format_bytes(plan.peak_bytes), plan.what});
  }
  return render_table({{"step", true}, {"", true}, {"peak", true}, {what}}, rows, style);
}

std::string rejected(const PlanReport& report, const TextStyle& style) {
  std::string text;
  for (const Rejection& rejection : report.rejected)
    text += hanging(format_count(rejection.count) + (rejection.count == 1 ? " plan  " : " plans  "), text_of(rejection.reason), style);
  std::vector<std::vector<Cell>> rows;
  for (const RejectedClass& rejected_class : report.classes) rows.push_back({text_of(rejected_class.choice), text_of(rejected_class)});
  return text + (rows.empty() ? "" : "\n" + render_table({{"pipelines with"}, {"why not"}}, rows, style));
}

std::string left_out(const PlanReport& report, const TextStyle& style) {
  std::string text;
  if (!report.rejected.empty() || !report.classes.empty()) text += heading(style, "Rejected") + rejected(report, style) + "\n";
  if (!report.not_executable.empty())
    text += heading(style, "Not executable") + others(report.not_executable, kShownFront, report.step_s, "plan", style) + "\n";
  return text;
}

}  // namespace

std::string render_partition(const std::vector<PlannedLayer>& layers, const TextStyle& style) {
  if (layers.empty()) return "";
  const PartitionBar bar(layers, std::max(20, style.width - kBarLabel - 1), style);
  std::string text;
  for (int row = 0; row < 3; ++row) {
    text += pad_right(row == 0 ? "stage" : row == 2 ? bar.unit() : "", kBarLabel) + bar.row(row);
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

std::string render_plan(const PlanReport& report, const TextStyle& style, Listing listing) {
  std::string text = heading(style, report.title);
  text += paint(style, Color::bold, join(wrap(report.description, style.width), "\n")) + "\n" + paragraph(proof(report), style);
  for (const std::string& line : report.next) text += printable(line) + "\n";
  text += "\n";
  text += heading(style, "Partition") + render_partition(report.layers, style) + "\n" + stage_table(report, style) + "\n";
  text += beyond_step(report, style) + recomputed_layers(report, style) + offloading_stages(report, style) + paragraph(report.limit, style);
  text += "no schedule of these stages takes less than " + format_seconds(report.schedule_bound_s) + "\n\n";
  if (const std::string timeline = render_timeline(report.trace, style); !timeline.empty())
    text += heading(style, "One step, predicted") + timeline + "\n";
  if (const std::string memory = render_memory(report.trace, style); !memory.empty())
    text += heading(style, "Memory, predicted") + memory + "\n";
  if (!report.alternatives.empty())
    text += heading(style, "Next best") + others(report.alternatives, kShownAlternatives, report.step_s, "what differs", style) + "\n";
  if (report.front.size() > 1)
    text += heading(style, "Time against memory") + others(report.front, kShownFront, report.step_s, "what differs", style) + "\n";
  if (listing == Listing::all) text += left_out(report, style);
  for (const std::string& note : report.notes) text += paragraph(note, style);
  if (listing == Listing::few && !left_out(report, style).empty()) text += "-v lists what was rejected, and why\n";
  return text + (report.next.empty() ? "" : paint(style, Color::bold, printable(report.next.back())) + "\n");
}

}  // namespace mptune::reports

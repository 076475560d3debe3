#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "profiler/base/units.h"
#include "reports/html/axis.h"
#include "reports/html/charts.h"
#include "reports/html/markup.h"
#include "reports/html/svg_parts.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

constexpr std::size_t kMostLanes = 32;
/// More devices than this get low lanes without labels.
constexpr std::size_t kMostLabelled = 8;
/// With more boxes than this, none has a label or a tooltip, and boxes narrower than a pixel are left out, so that the page stays small.
constexpr std::size_t kMostTold = 1200;
/// The percentage of the chart's width that a character takes, on a narrow chart.
constexpr double kCharacter = 1.1;
constexpr double kPixel = 0.05;

struct KindLook {
  const char* css_class;
  const char* words;
};

KindLook look_of(EventKind kind) {
  switch (kind) {
    case EventKind::forward:
      return {"k-forward", "forward"};
    case EventKind::backward:
    case EventKind::recompute:
      return {"k-backward", "backward"};
    case EventKind::backward_input:
      return {"k-backward", "gradients of inputs"};
    case EventKind::backward_weight:
      return {"k-weight", "gradients of weights"};
    case EventKind::optimizer:
      return {"k-optimizer", "optimizer"};
    case EventKind::reduce:
      return {"k-reduce", "sum over replicas"};
    default:
      return {"k-other", "other work"};
  }
}

std::string idle_words(const std::string& cause) {
  return cause.empty() ? "waits for another device" : "idle: " + cause_in_words(cause);
}

std::string idle_class(const std::string& cause) {
  return "i-" + (cause.empty() ? "wait" : cause);
}

/// Everything of one drawing. Labels depend on which devices run several stages.
class Timeline {
 public:
  Timeline(const TraceReport& report, const Axis& axis, bool told) : report_(report), axis_(axis), told_(told) {
    std::map<int, std::set<int>> stages;
    for (const TimelineBox& box : report.timeline) stages[box.device].insert(box.stage);
    for (const auto& [device, numbers] : stages)
      if (numbers.size() > 1) several_.insert(device);
    height_ = report.devices.size() > kMostLabelled ? 12 : 26;
  }

  [[nodiscard]] std::string lanes() const {
    std::string markup;
    for (std::size_t d = 0; d < std::min(report_.devices.size(), kMostLanes); ++d) {
      const std::string& name = report_.devices[d].device;
      markup +=
          element("div", "class=\"lane\"", escape_html(name)) + chart_svg(height_, report_.title + ", " + name, lane(static_cast<int>(d)));
    }
    return markup;
  }
  [[nodiscard]] bool has_several_stages() const { return !several_.empty(); }

 private:
  [[nodiscard]] std::string lane(int device) const {
    std::string drawn = chart_rect("track", 0, axis_.percent(report_.timeline_s), 0, height_, "");
    for (const IdleSpan& span : report_.idle_spans) {
      if (span.device != device || is_hidden(span.start_s, span.end_s)) continue;
      const std::string words = told_ ? idle_words(span.cause) + ", " + format_seconds(span.end_s - span.start_s) : "";
      drawn += rect(idle_class(span.cause), span.start_s, span.end_s, words);
    }
    for (const TimelineBox& box : report_.timeline)
      if (box.device == device && !is_hidden(box.start_s, box.end_s)) drawn += drawn_box(box);
    return drawn;
  }

  [[nodiscard]] bool is_hidden(double start_s, double end_s) const { return !told_ && axis_.percent(end_s - start_s) < kPixel; }

  [[nodiscard]] std::string rect(const std::string& css_class, double start_s, double end_s, const std::string& words) const {
    return chart_rect(css_class, axis_.percent(start_s), axis_.percent(end_s - start_s), 0, height_, words);
  }

  [[nodiscard]] std::string drawn_box(const TimelineBox& box) const {
    const KindLook look = look_of(box.kind);
    std::string words;
    if (told_) {
      words = look.words;
      if (box.microbatch >= 0) words += fmt::format(", stage {}, micro-batch {}", box.stage, box.microbatch);
      words += ", " + format_seconds(box.end_s - box.start_s);
    }
    std::string drawn = rect(look.css_class, box.start_s, box.end_s, words);
    const std::string label = label_of(box);
    const double width = axis_.percent(box.end_s - box.start_s);
    if (told_ && height_ > 20 && width >= kCharacter * static_cast<double>(label.size()) + 0.4 && !label.empty())
      drawn += chart_text(axis_.percent(box.start_s) + width / 2, height_ / 2 + 4, "middle", label, std::string("on-") + look.css_class);
    return drawn;
  }

  [[nodiscard]] std::string label_of(const TimelineBox& box) const {
    if (box.kind == EventKind::optimizer) return "o";
    if (box.kind == EventKind::reduce) return "r";
    if (box.microbatch < 0) return "";
    return several_.contains(box.device) ? fmt::format("{}.{}", box.stage, box.microbatch) : std::to_string(box.microbatch);
  }

  const TraceReport& report_;
  const Axis& axis_;
  bool told_;
  double height_;
  std::set<int> several_;
};

std::string legend_of(const std::vector<const TraceReport*>& traces) {
  std::vector<std::pair<std::string, std::string>> entries;
  const auto add = [&](const std::string& css_class, const std::string& words) {
    const auto same = [&](const auto& entry) { return entry.first == css_class && entry.second == words; };
    if (std::ranges::none_of(entries, same)) entries.emplace_back(css_class, words);
  };
  for (const TraceReport* trace : traces)
    for (const TimelineBox& box : trace->timeline) add(look_of(box.kind).css_class, look_of(box.kind).words);
  for (const TraceReport* trace : traces)
    for (const IdleSpan& span : trace->idle_spans) add(idle_class(span.cause), idle_words(span.cause));
  return chart_legend(entries);
}

}  // namespace

std::string timeline_chart(const std::vector<const TraceReport*>& traces) {
  double longest = 0;
  std::size_t boxes = 0, most_devices = 0;
  for (const TraceReport* trace : traces) {
    longest = std::max(longest, trace->timeline_s);
    boxes += trace->timeline.size() + trace->idle_spans.size();
    most_devices = std::max(most_devices, trace->devices.size());
  }
  if (longest <= 0 || boxes == 0) return "";
  const Axis axis = time_axis(longest, 8, true);
  std::string lanes;
  bool several = false;
  for (const TraceReport* trace : traces) {
    if (trace->timeline.empty()) continue;
    const Timeline timeline(*trace, axis, boxes <= kMostTold);
    several = several || timeline.has_several_stages();
    lanes += element("h3", "", escape_html(trace->title) + " " + element("small", "", "one step of " + format_seconds(trace->timeline_s))) +
             "\n" + timeline.lanes();
  }
  std::string notes = several ? "Labels: stage.micro-batch." : "Labels: number of the micro-batch.";
  const auto ends_in_optimizer = [](const TraceReport* trace) {
    return std::ranges::find(trace->timeline, EventKind::optimizer, &TimelineBox::kind) != trace->timeline.end();
  };
  if (std::ranges::any_of(traces, ends_in_optimizer)) notes += " o: optimizer.";
  if (most_devices > kMostLanes) notes += fmt::format(" {} more devices are not drawn.", most_devices - kMostLanes);
  return "<div class=\"timeline\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"timeline\"><div class=\"wide\">\n" +
         lanes + chart_svg(24, "time from 0 to " + format_seconds(longest), axis_below(axis, 6)) + "</div></div></div>\n" +
         legend_of(traces) + element("p", "class=\"note\"", notes) + "\n";
}

}  // namespace mptune::reports

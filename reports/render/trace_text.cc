#include <fmt/format.h>

#include <algorithm>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/advice_text.h"
#include "reports/render/report_text.h"
#include "reports/render/table.h"
#include "reports/render/units.h"
#include "reports/values/quality_text.h"

namespace mptune::reports {
namespace {

constexpr std::size_t kMostPathRows = 12;
/// A part less than this share of the step would be printed as 0.0 %.
constexpr double kLeastShare = 0.0005;
/// Causes of idle time with less than this share of the step get no advice.
constexpr double kWorthAWord = 0.01;

double share_of(const DeviceRow& row, const profiler::NamedCause& cause) {
  return row.window_s > 0 ? std::chrono::duration<double>(row.idle.*cause.time).count() / row.window_s : 0;
}

/// Returns the mean share over all devices.
double share_of_all(const TraceReport& report, const profiler::NamedCause& cause) {
  double idle_s = 0, window_s = 0;
  for (const DeviceRow& row : report.devices) {
    idle_s += share_of(row, cause) * row.window_s;
    window_s += row.window_s;
  }
  return window_s > 0 ? idle_s / window_s : 0;
}

/// Returns the causes of idle time, those of most time first.
std::vector<profiler::NamedCause> by_size(const TraceReport& report) {
  std::vector<profiler::NamedCause> causes(profiler::kIdleCauses.begin(), profiler::kIdleCauses.end());
  std::ranges::stable_sort(causes, std::ranges::greater{}, [&](const profiler::NamedCause& cause) { return share_of_all(report, cause); });
  return causes;
}

std::string worth_label(double seconds, double share) {
  return pad_left(format_seconds(seconds), 8) + pad_left(format_percent(share), 9) + "  ";
}

std::string path_table(const std::vector<PathRow>& path, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  PathRow rest{.what = "", .time_s = 0, .share = 0};
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (i < kMostPathRows) {
      rows.push_back({path[i].what, format_percent(path[i].share), format_seconds(path[i].time_s)});
    } else {
      rest.time_s += path[i].time_s;
      rest.share += path[i].share;
    }
  }
  if (path.size() > kMostPathRows)
    rows.push_back({fmt::format("{} more", path.size() - kMostPathRows), format_percent(rest.share), format_seconds(rest.time_s)});
  return render_table({{"critical path"}, {"share", true}, {"per step", true}}, rows, style);
}

std::string link_table(const std::vector<LinkRow>& links, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  for (const LinkRow& link : links) {
    const bool sized = link.bytes > 0 && link.time_s > 0;
    rows.push_back({link.source, link.destination, std::to_string(link.copies), sized ? format_bytes(link.bytes) : "-",
                    format_seconds(link.time_s), sized ? format_bandwidth(static_cast<double>(link.bytes) / link.time_s) : "-",
                    format_percent(link.time_s > 0 ? link.exposed_s / link.time_s : 0)});
  }
  return render_table({{"from"}, {"to"}, {"copies", true}, {"bytes", true}, {"busy", true}, {"achieved", true}, {"exposed time", true}},
                      rows, style);
}

std::string lost_events(const TraceReport& report) {
  const TraceQuality& quality = report.quality;
  std::vector<std::string> parts;
  const auto add = [&](std::int64_t count, const char* what) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, what));
  };
  add(quality.dropped, "dropped");
  add(quality.zero_stamped, "without times");
  add(quality.unmatched, "without a counterpart");
  add(quality.ambiguous, "of several processes at once on one device number");
  add(quality.out_of_window, "outside of steps");
  add(quality.cut_off, "cut off at the ends of the recording");
  add(report.has_stages ? quality.untagged : 0, "untagged");
  return join(parts, ", ");
}

std::string clock_words(const TraceReport& report) {
  return report.clock_error_s > 0 ? "off by at least " + format_seconds(report.clock_error_s) +
                                        ": some work began that long before its input was there or it was launched"
                                  : "no work began before its input was there";
}

/// Returns a sentence on CUDA graphs that are recorded as a whole; "" without any.
std::string graph_words(const TraceReport& report) {
  if (report.whole_graphs == 0) return "";
  return fmt::format(
      "{} of the computing time is CUDA graphs recorded as a whole ({} of them): which kernels, copies and collectives they "
      "hold is not known; record with nsys profile --cuda-graph-trace=node",
      format_percent(report.whole_graphs_share), report.whole_graphs);
}

/// Returns a sentence on collectives in the file of one rank; "" without any.
std::string lone_words(const TraceReport& report) {
  if (report.lone_collectives == 0) return "";
  return fmt::format(
      "communications with other ranks take {} of the step ({} of them) and count as communication, under copy: with the file of one rank, "
      "waiting for the others inside of them can't be told from the transfer; give the files of all ranks",
      format_percent(report.lone_collectives_share), report.lone_collectives);
}

}  // namespace

std::string causes_text(const DeviceRow& row) {
  std::vector<profiler::NamedCause> causes(profiler::kIdleCauses.begin(), profiler::kIdleCauses.end());
  std::ranges::stable_sort(causes, std::ranges::greater{}, [&](const profiler::NamedCause& cause) { return row.idle.*cause.time; });
  std::vector<std::string> parts;
  for (const profiler::NamedCause& cause : causes)
    if (const double share = share_of(row, cause); share >= kLeastShare)
      parts.push_back(cause_in_words(cause.name) + " " + format_percent(share));
  return join(parts, ", ");
}

std::string render_idle(const TraceReport& report, const TextStyle& style) {
  int label = 3;
  for (const DeviceRow& row : report.devices) label = std::max(label, display_width(shortened(row.device, most_label(style))));
  const auto begin = [&](const std::string& name, double share) {
    return pad_right(shortened(name, label), label) + pad_left(format_percent(share), 9) + " idle";
  };
  std::string text;
  for (const DeviceRow& row : report.devices)
    text += hanging(begin(row.device, row.window_s > 0 ? row.idle_s / row.window_s : 0) + "  ", causes_text(row), style);
  const std::string theory =
      report.bubble_theory ? fmt::format("in theory {} (equal stages, free copies)", format_percent(*report.bubble_theory)) : "";
  return text + hanging(begin("all", report.bubble) + "  ", theory, style);
}

std::string render_advice(const TraceReport& report, const TextStyle& style) {
  if (report.objection) return hanging("", "no verdict: " + text_of(*report.objection), style);
  std::string text;
  for (const planner::Advice& advice : report.advice)
    text += hanging(worth_label(advice.saves_s, advice.saves_percent / 100), action_of(advice), style);
  if (text.empty()) {
    text = hanging("",
                   report.has_stages ? "no single change is predicted to make the step 0.5 % shorter"
                                     : "the recording names no stages, so no change can be priced",
                   style);
  }
  for (const profiler::NamedCause& cause : by_size(report)) {
    const double share = share_of_all(report, cause);
    const bool advised = std::ranges::any_of(
        report.advice, [&](const planner::Advice& advice) { return cause.name == std::string(to_string(advice.cause)); });
    if (share >= kWorthAWord && !advised)
      text += hanging(worth_label(share * report.step_s, share),
                      "at most, " + cause_in_words(cause.name) + ": " + remedy_of_cause(cause.name), style);
  }
  return text;
}

std::string render_trace_answer(const TraceReport& report, const TextStyle& style) {
  if (report.devices.empty()) return "";
  double window_s = 0, compute_s = 0, copy_s = 0;
  for (const DeviceRow& row : report.devices) {
    window_s += row.window_s;
    compute_s += row.compute_s + row.overlap_s;
    copy_s += row.copy_s;
  }
  if (window_s <= 0) return "";
  std::string text = hanging("",
                             fmt::format("the devices compute {} of the step and only copy {} of it", format_percent(compute_s / window_s),
                                         format_percent(copy_s / window_s)),
                             style);
  if (const std::string graphs = graph_words(report); !graphs.empty()) text += hanging("", graphs, style);
  if (const std::string lone = lone_words(report); !lone.empty()) text += hanging("", lone, style);
  if (report.objection) return text;
  const profiler::NamedCause largest = by_size(report).front();
  if (const double share = share_of_all(report, largest); share >= kWorthAWord)
    text += hanging("", fmt::format("largest cause of idle time: {}, {}", cause_in_words(largest.name), format_percent(share)), style);
  if (const planner::Advice* best = best_change(report.advice)) text += hanging("", "best change: " + text_of(*best), style);
  return text;
}

std::vector<std::string> recording_sentences(const TraceReport& report) {
  std::vector<std::string> sentences = {"clocks: " + clock_words(report)};
  if (std::string lost = lost_events(report); !lost.empty()) sentences.push_back("events: " + lost);
  if (std::string graphs = graph_words(report); !graphs.empty()) sentences.push_back(graphs);
  if (std::string lone = lone_words(report); !lone.empty()) sentences.push_back(lone);
  return sentences;
}

std::string render_details(const TraceReport& report, const TextStyle& style) {
  std::string text = report.critical_path.empty() ? "" : path_table(report.critical_path, style) + "\n";
  text += report.links.empty() ? "" : link_table(report.links, style) + "\n";
  text += hanging("clocks: ", clock_words(report), style);
  const std::string lost = lost_events(report);
  return text + (lost.empty() ? "" : hanging("events: ", lost, style));
}

}  // namespace mptune::reports

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "mptune/reports/render/report_text.h"
#include "mptune/reports/render/table.h"
#include "mptune/reports/render/units.h"

namespace mptune {
namespace {

constexpr std::size_t kMostPathRows = 12;
/// Less than this share of the step would be printed as 0.0 %.
constexpr double kLeastShare = 0.0005;

double share_of(const DeviceRow& row, const NamedCause& cause) {
  return row.window_s > 0 ? std::chrono::duration<double>(row.idle.*cause.time).count() / row.window_s : 0;
}

std::string in_words(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string causes_text(const DeviceRow& row) {
  std::vector<NamedCause> causes(kIdleCauses.begin(), kIdleCauses.end());
  std::ranges::stable_sort(causes, std::ranges::greater{}, [&](const NamedCause& cause) { return row.idle.*cause.time; });
  std::vector<std::string> parts;
  for (const NamedCause& cause : causes) {
    if (const double share = share_of(row, cause); share >= kLeastShare) {
      parts.push_back(in_words(cause.name) + " " + format_percent(share));
    }
  }
  return join(parts, ", ");
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
  if (path.size() > kMostPathRows) {
    rows.push_back({fmt::format("{} more", path.size() - kMostPathRows), format_percent(rest.share), format_seconds(rest.time_s)});
  }
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
  return render_table({{"from"}, {"to"}, {"copies", true}, {"bytes", true}, {"busy", true}, {"achieved", true}, {"exposed", true}}, rows,
                      style);
}

std::int64_t most_of(const MemoryRow& row) {
  std::int64_t most = std::max(row.peak_bytes, row.contents ? row.contents->total() : 0);
  for (const MemoryRow::Sample& sample : row.samples) {
    most = std::max(most, sample.bytes);
  }
  return most;
}

/// A column shows the most that was in use then; between samples what the one before said.
std::string level_line(const MemoryRow& row, double step_s, std::int64_t most, int columns, const TextStyle& style) {
  static constexpr std::array kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::array kAscii = {" ", ".", ".", ":", "-", "=", "+", "*", "#"};
  std::vector<std::int64_t> levels(static_cast<std::size_t>(std::max(1, columns)), 0);
  std::size_t from = 0;
  std::int64_t now = row.samples.front().bytes;
  for (const MemoryRow::Sample& sample : row.samples) {
    const double place = step_s > 0 ? sample.time_s / step_s * static_cast<double>(levels.size()) : 0;
    const std::size_t at = std::min(static_cast<std::size_t>(place), levels.size() - 1);
    for (; from < at; ++from) levels[from] = std::max(levels[from], now);
    levels[at] = std::max(levels[at], sample.bytes);
    now = sample.bytes;
  }
  for (; from < levels.size(); ++from) levels[from] = std::max(levels[from], now);
  std::string text;
  for (const std::int64_t level : levels) {
    const auto height = static_cast<std::size_t>((level * 8 + most - 1) / most);
    text += style.unicode ? kBlocks.at(height) : kAscii.at(height);
  }
  return text;
}

std::string microbatches_text(const std::map<int, std::int64_t>& activations) {
  std::vector<std::string> names;
  for (const auto& [microbatch, bytes] : activations) {
    names.push_back(std::to_string(microbatch));
  }
  const bool in_a_row = !activations.empty() && activations.rbegin()->first - activations.begin()->first + 1 == std::ssize(names);
  if (names.size() > 3) {
    names = {names.front() + (in_a_row ? " to " : " .. ") + names.back()};
  }
  return (activations.size() == 1 ? "activations of micro-batch " : "activations of micro-batches ") + join(names, ", ");
}

std::string contents_text(const MemoryRow& row) {
  std::string text = row.peak_bytes > 0 ? "peak " + format_bytes(row.peak_bytes) : "";
  if (!row.contents) {
    return text;
  }
  const PeakContents& all = *row.contents;
  std::vector<std::pair<std::string, std::int64_t>> parts = {{"parameters", all.parameters_bytes},
                                                             {"gradients", all.gradients_bytes},
                                                             {"optimizer state", all.optimizer_bytes},
                                                             {"buffers", all.buffers_bytes},
                                                             {"slots for inputs and gradients", all.slots_bytes},
                                                             {"workspace", all.workspace_bytes},
                                                             {"allocator's reserve", all.reserve_bytes}};
  std::int64_t kept = 0;
  for (const auto& [microbatch, bytes] : all.activations_bytes) {
    kept += bytes;
  }
  parts.emplace_back(microbatches_text(all.activations_bytes), kept);
  std::ranges::stable_sort(parts, std::ranges::greater{}, &std::pair<std::string, std::int64_t>::second);
  std::vector<std::string> texts;
  for (const auto& [name, bytes] : parts) {
    if (bytes > 0) {
      texts.push_back(name + " " + format_bytes(bytes));
    }
  }
  return text + (text.empty() ? "" : "; ") + "by the profile " + format_bytes(all.total()) + ": " + join(texts, ", ");
}

std::string quality_text(const TraceReport& report, const TextStyle& style) {
  const TraceQuality& quality = report.quality;
  std::vector<std::string> parts;
  const auto add = [&](std::int64_t count, const char* what) {
    if (count > 0) {
      parts.push_back(fmt::format("{} {}", count, what));
    }
  };
  add(quality.dropped, "dropped");
  add(quality.zero_stamped, "without times");
  add(quality.unmatched, "without a counterpart");
  add(quality.out_of_window, "outside of steps");
  add(report.has_stages ? quality.untagged : 0, "untagged");
  return parts.empty() ? "" : hanging("events: ", join(parts, ", "), style);
}

}  // namespace

std::string render_idle(const TraceReport& report, const TextStyle& style) {
  int label = 3;
  for (const DeviceRow& row : report.devices) {
    label = std::max(label, display_width(row.device));
  }
  const auto begin = [&](const std::string& name, double share) {
    return pad_right(name, label) + pad_left(format_percent(share), 9) + " idle";
  };
  std::string text;
  for (const DeviceRow& row : report.devices) {
    text += hanging(begin(row.device, row.window_s > 0 ? row.idle_s / row.window_s : 0) + "  ", causes_text(row), style);
  }
  const std::string paper =
      report.bubble_theory ? fmt::format("on paper {} (equal stages, free copies)", format_percent(*report.bubble_theory)) : "";
  return text + hanging(begin("all", report.bubble) + "  ", paper, style);
}

std::string render_advice(const TraceReport& report, const TextStyle& style) {
  if (!report.doubt.empty()) {
    return hanging("", "no verdict: " + report.doubt, style);
  }
  std::string text;
  for (const Advice& advice : report.advice) {
    text += hanging(pad_left(format_seconds(advice.saves_s), 8) + "  ", advice.text, style);
  }
  if (!text.empty()) {
    return text;
  }
  return hanging("",
                 report.has_stages ? "nothing here is worth 0.5 % of the step"
                                   : "the recording does not say which stage its work belongs to: there is nothing to move",
                 style);
}

std::string render_memory(const TraceReport& report, const TextStyle& style) {
  std::size_t label = 0;
  for (const MemoryRow& row : report.memory) {
    label = std::max(label, row.device.size());
  }
  std::string text;
  for (const MemoryRow& row : report.memory) {
    if (most_of(row) == 0) continue;
    std::string name = pad_right(row.device, static_cast<int>(label)) + "  ";
    if (!row.samples.empty()) {
      text += name + level_line(row, report.timeline_s, most_of(row), style.width - display_width(name), style) + "\n";
      name = repeat(" ", display_width(name));
    }
    text += hanging(name, contents_text(row), style);
  }
  return text;
}

std::string render_details(const TraceReport& report, const TextStyle& style) {
  std::string text = report.critical_path.empty() ? "" : path_table(report.critical_path, style) + "\n";
  text += report.links.empty() ? "" : link_table(report.links, style) + "\n";
  text +=
      report.clock_error_s > 0
          ? hanging("clocks: ",
                    "off by at least " + format_seconds(report.clock_error_s) + ": so much earlier than its input some work began", style)
          : "clocks: no work began before its input was there\n";
  return text + quality_text(report, style);
}

}  // namespace mptune

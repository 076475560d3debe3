#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "profiler/base/index.h"
#include "profiler/base/units.h"
#include "reports/html/axis.h"
#include "reports/html/charts.h"
#include "reports/html/markup.h"
#include "reports/html/svg_parts.h"
#include "reports/render/report_text.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

constexpr double kBarHeight = 22;
constexpr double kMemoryHeight = 56;
/// A part less than this share of a bar is narrower than a pixel.
constexpr double kLeastShare = 0.002;
/// A cap further above the peak than this is not drawn: the picture would be flat.
constexpr double kFarAbove = 2.5;
/// With more samples than this, only the largest of each part of the step is drawn.
constexpr std::size_t kMostSamples = 240;

struct BarPart {
  std::string css_class;
  std::string words;
  double seconds = 0;
};

std::vector<BarPart> parts_of(const DeviceRow& row) {
  std::vector<BarPart> parts = {{"k-compute", "compute", row.compute_s},
                                {"k-overlap", "compute and copy at once (overlap)", row.overlap_s},
                                {"k-copy", "copy", row.copy_s}};
  for (const profiler::NamedCause& cause : profiler::kIdleCauses)
    parts.push_back({std::string("i-") + cause.name, "idle: " + cause_in_words(cause.name),
                     std::chrono::duration<double>(row.idle.*cause.time).count()});
  return parts;
}

std::string bar_head(const std::string& name, const std::string& value) {
  return element("div", "class=\"head\"",
                 element("span", "class=\"name\"", escape_html(name)) + element("span", "class=\"value\"", escape_html(value))) +
         "\n";
}

/// Returns the largest sample of each part of the step, so that no peak is lost.
std::vector<MemoryRow::Sample> thinned(const std::vector<MemoryRow::Sample>& samples) {
  if (samples.size() <= kMostSamples) return samples;
  std::vector<MemoryRow::Sample> kept;
  const std::size_t group = (samples.size() + kMostSamples - 1) / kMostSamples;
  for (std::size_t i = 0; i < samples.size(); i += group) {
    const auto end = samples.begin() + static_cast<std::ptrdiff_t>(std::min(i + group, samples.size()));
    kept.push_back(*std::max_element(samples.begin() + static_cast<std::ptrdiff_t>(i), end,
                                     [](const auto& a, const auto& b) { return a.bytes < b.bytes; }));
  }
  return kept;
}

std::string level_shape(const MemoryRow& row, double step_s, double top) {
  const std::vector<MemoryRow::Sample> samples = thinned(row.samples);
  const auto x_of = [&](double time_s) { return std::clamp(time_s / step_s * 1000, 0.0, 1000.0); };
  const auto y_of = [&](std::int64_t bytes) { return 100 - static_cast<double>(bytes) / top * 100; };
  std::string path = fmt::format("M0,100V{:.1f}", y_of(samples.front().bytes));
  for (const MemoryRow::Sample& sample : samples) path += fmt::format("H{:.1f}V{:.1f}", x_of(sample.time_s), y_of(sample.bytes));
  // The picture is stretched to the width of the page; it has no text and no outline.
  return fmt::format(
      "<svg width=\"100%\" height=\"{:.0f}\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\"><path class=\"level\" "
      "d=\"{}H1000V100Z\"/></svg>\n",
      kMemoryHeight, path);
}

std::string memory_bar(const MemoryRow& row, double top) {
  return chart_rect("level", 0, static_cast<double>(row.peak_bytes) / top * 100, 0, kBarHeight,
                    row.device + ": " + format_bytes(row.peak_bytes));
}

std::string memory_picture(const MemoryRow& row, double step_s) {
  std::int64_t most = row.peak_bytes;
  for (const MemoryRow::Sample& sample : row.samples) most = std::max(most, sample.bytes);
  const bool over = row.cap_bytes > 0 && row.peak_bytes > row.cap_bytes;
  const bool cap = row.cap_bytes > 0 && static_cast<double>(row.cap_bytes) <= kFarAbove * static_cast<double>(most);
  const double top = static_cast<double>(cap ? std::max(most, row.cap_bytes) : most) * 1.02;
  const bool curve = row.samples.size() > 1 && step_s > 0;
  const double height = curve ? kMemoryHeight : kBarHeight;
  std::string drawn = chart_rect("track", 0, 100, 0, height, "") + (curve ? level_shape(row, step_s, top) : memory_bar(row, top));
  if (cap && curve) {
    const double y = height * (1 - static_cast<double>(row.cap_bytes) / top);
    drawn += chart_line(over ? "cap over" : "cap", 0, y, 100, y) + chart_text(99.5, y + 13, "end", "cap " + format_bytes(row.cap_bytes));
  } else if (cap) {
    const double x = static_cast<double>(row.cap_bytes) / top * 100;
    drawn += chart_line(over ? "cap over" : "cap", x, 0, x, height);
  }
  return chart_svg(height, row.device + ": memory over the step", drawn);
}

struct Segment {
  int stage = 0;
  double begin_s = 0, seconds = 0;
  std::size_t layers = 0;
};

/// Draws the bar of a partition. `words`: the words of a layer and its share of the bar.
template <class Words>
std::string partition_bar(const std::vector<PlannedLayer>& layers, const std::vector<std::string>& stage_devices, const Words& words) {
  double whole = 0;
  for (const PlannedLayer& layer : layers) whole += layer.step_s;
  if (whole <= 0) return "";
  std::vector<Segment> segments;
  std::string drawn;
  double before = 0;
  for (const PlannedLayer& layer : layers) {
    if (segments.empty() || segments.back().stage != layer.stage) segments.push_back({layer.stage, before, 0, 0});
    const std::size_t within = segments.back().layers++;
    segments.back().seconds += layer.step_s;
    drawn += chart_rect(fmt::format("layer s{}{}", layer.stage % 4, within % 2 == 0 ? "" : " odd"), before / whole * 100,
                        layer.step_s / whole * 100, 20, 30, words(layer, layer.step_s / whole));
    before += layer.step_s;
  }
  for (const Segment& segment : segments) {
    const double x = segment.begin_s / whole * 100;
    const double share = segment.seconds / whole;
    if (x > 0) drawn += chart_line("cut", x, 0, x, 70);
    if (share < 0.06) continue;
    const std::string indent = share < 0.2 ? "" : "stage ";
    drawn += chart_text(x + 0.6, 13, "start", indent + std::to_string(segment.stage), "strong");
    drawn += chart_text(x + 0.6, 66, "start", format_percent(share));
    if (as_index(segment.stage) < stage_devices.size() && share >= 0.3)
      drawn += chart_text(x + share * 100 - 0.6, 13, "end", stage_devices[as_index(segment.stage)]);
  }
  return chart_svg(72, "layers of the model by stage", drawn);
}

}  // namespace

std::string breakdown_chart(const std::vector<DeviceRow>& devices) {
  std::string markup = "<div class=\"bars\">\n";
  std::vector<std::pair<std::string, std::string>> legend;
  std::set<std::string> used;
  for (const DeviceRow& row : devices) {
    if (row.window_s <= 0) continue;
    const auto share = [&](double seconds) { return seconds / row.window_s; };
    std::string drawn;
    double x = 0;
    for (const BarPart& part : parts_of(row)) {
      if (share(part.seconds) < kLeastShare) continue;
      drawn += chart_rect(
          part.css_class, x, share(part.seconds) * 100, 0, kBarHeight,
          fmt::format("{}: {} {}, {}", row.device, part.words, format_percent(share(part.seconds)), format_seconds(part.seconds)));
      x += share(part.seconds) * 100;
      used.insert(part.css_class);
    }
    markup += bar_head(row.device, fmt::format("computes {}, idle {}", format_percent(share(row.compute_s + row.overlap_s)),
                                               format_percent(share(row.idle_s)))) +
              chart_svg(kBarHeight, row.device + ": where its step goes", drawn);
  }
  if (used.empty()) return "";
  for (const BarPart& part : parts_of(devices.front()))
    if (used.contains(part.css_class)) legend.emplace_back(part.css_class, part.words);
  return markup + "</div>\n" + chart_legend(legend);
}

std::string memory_chart(const TraceReport& report) {
  std::string markup;
  for (const MemoryRow& row : report.memory) {
    if (row.peak_bytes <= 0 && row.samples.empty()) continue;
    const std::string cap = cap_text(row.peak_bytes, row.cap_bytes);
    markup += bar_head(row.device, "peak " + format_bytes(row.peak_bytes) + (cap.empty() ? "" : ", " + cap)) +
              memory_picture(row, report.timeline_s);
  }
  return markup.empty() ? "" : "<div class=\"bars\">\n" + markup + "</div>\n";
}

std::string partition_chart(const std::vector<PlannedLayer>& layers, const std::vector<std::string>& stage_devices) {
  const auto words = [](const PlannedLayer& layer, double share) {
    return fmt::format("{}, stage {}: {} of the computing time, {}", layer.name, layer.stage, format_percent(share),
                       format_seconds(layer.step_s));
  };
  return partition_bar(layers, stage_devices, words);
}

std::string partition_chart(const Plan& plan, const std::vector<std::string>& stage_devices) {
  std::vector<PlannedLayer> layers;
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Stage& stage = plan.stages[as_index(s)];
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) layers.push_back({"layer " + std::to_string(layer), s, 1});
  }
  return partition_bar(layers, stage_devices,
                       [](const PlannedLayer& layer, double) { return fmt::format("{}, stage {}", layer.name, layer.stage); });
}

}  // namespace mptune::reports

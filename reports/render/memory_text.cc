#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/report_text.h"

namespace mptune::reports {
namespace {

constexpr int kDrawnRows = 3;
/// With more devices than this, each is one line.
constexpr std::size_t kMostTall = 8;
/// A cap further above the peak than this is not drawn: the picture would be flat.
constexpr double kFarAbove = 2.5;

std::int64_t most_of(const MemoryRow& row) {
  std::int64_t most = std::max(row.peak_bytes, row.contents ? row.contents->total() : 0);
  for (const MemoryRow::Sample& sample : row.samples) most = std::max(most, sample.bytes);
  return most;
}

bool is_over(const MemoryRow& row) {
  return row.cap_bytes > 0 && row.peak_bytes > row.cap_bytes;
}

/// Returns the level of each column: the most memory in use in its time; between samples the last sample holds.
std::vector<std::int64_t> levels_of(const MemoryRow& row, double step_s, int columns) {
  std::vector<std::int64_t> levels(as_index(std::max(1, columns)), 0);
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
  return levels;
}

/// Levels as a picture of some rows, eight heights each, and the cap's line where it has room.
class LevelPicture {
 public:
  LevelPicture(const MemoryRow& row, double step_s, int rows, int columns, const TextStyle& style)
      : style_(style), rows_(rows), canvas_(rows, columns) {
    const std::int64_t most = most_of(row);
    const bool line = rows > 1 && row.cap_bytes > 0 && static_cast<double>(row.cap_bytes) <= kFarAbove * static_cast<double>(most);
    top_ = line ? std::max(most, row.cap_bytes) : most;
    cap_row_ = line ? rows - 1 - (eighths(row.cap_bytes) - 1) / 8 : -1;
    const std::vector<std::int64_t> levels = levels_of(row, step_s, columns);
    for (std::size_t i = 0; i < levels.size(); ++i) draw(static_cast<int>(i), levels[i], row.cap_bytes > 0 && levels[i] > row.cap_bytes);
  }

  /// Returns the row of the cap's line, -1 where it is not drawn.
  [[nodiscard]] int cap_row() const { return cap_row_; }
  [[nodiscard]] std::string row(int row) const { return canvas_.row(row, style_); }

 private:
  [[nodiscard]] int eighths(std::int64_t bytes) const { return static_cast<int>((bytes * 8 * rows_ + top_ - 1) / top_); }

  /// Draws a column. Memory over the cap has another shade from the cap's row on.
  void draw(int column, std::int64_t level, bool over) {
    static constexpr std::array kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static constexpr std::array kAscii = {" ", ".", ".", ":", "-", "=", "+", "*", "#"};
    for (int row = 0; row < rows_; ++row) {
      const auto height = as_index(std::clamp(eighths(level) - 8 * (rows_ - 1 - row), 0, 8));
      if (height > 0 && over && row <= cap_row_)
        canvas_.put(row, column, style_.unicode ? "▓" : "X", Color::red);
      else if (height > 0)
        canvas_.put(row, column, style_.unicode ? kBlocks.at(height) : kAscii.at(height), over ? Color::red : Color::none);
      else if (row == cap_row_)
        canvas_.put(row, column, style_.unicode ? "╌" : "~", Color::dim);
    }
  }

  const TextStyle& style_;
  int rows_;
  Canvas canvas_;
  std::int64_t top_ = 1;
  int cap_row_ = -1;
};

std::string microbatches_text(const std::map<int, std::int64_t>& activations) {
  std::vector<std::string> names;
  for (const auto& [microbatch, bytes] : activations) names.push_back(std::to_string(microbatch));
  const bool in_a_row = !activations.empty() && activations.rbegin()->first - activations.begin()->first + 1 == std::ssize(names);
  if (names.size() > 3) names = {names.front() + (in_a_row ? " to " : " .. ") + names.back()};
  return (activations.size() == 1 ? "activations of micro-batch " : "activations of micro-batches ") + join(names, ", ");
}

std::string parts_text(const planner::PeakContents& all) {
  std::vector<std::pair<std::string, std::int64_t>> parts = {{"parameters", all.parameters_bytes},
                                                             {"gradients", all.gradients_bytes},
                                                             {"optimizer state", all.optimizer_bytes},
                                                             {"buffers", all.buffers_bytes},
                                                             {"communication buffers", all.communication_buffer_bytes},
                                                             {"workspace", all.workspace_bytes},
                                                             {"CUDA's libraries", all.library_bytes},
                                                             {"allocator's reserve", all.reserve_bytes}};
  std::int64_t saved = 0;
  for (const auto& [microbatch, bytes] : all.activations_bytes) saved += bytes;
  parts.emplace_back(microbatches_text(all.activations_bytes), saved);
  std::ranges::stable_sort(parts, std::ranges::greater{}, &std::pair<std::string, std::int64_t>::second);
  std::vector<std::string> texts;
  for (const auto& [name, bytes] : parts)
    if (bytes > 0) texts.push_back(name + " " + format_bytes(bytes));
  return join(texts, ", ");
}

/// Renders the picture under the name of its device, with the cap at its right.
std::string picture_text(const MemoryRow& row, const std::string& name, double step_s, int rows, int margin, const TextStyle& style) {
  const LevelPicture picture(row, step_s, rows, style.width - display_width(name) - margin, style);
  std::string text;
  for (int i = 0; i < rows; ++i) {
    const std::string line = picture.row(i);
    text += (i == 0 ? name : repeat(" ", display_width(name))) + line;
    if (i == picture.cap_row()) {
      const int columns = style.width - display_width(name) - margin;
      text += repeat(" ", columns - display_width(line)) + " cap " + format_bytes(row.cap_bytes);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string contents_text(const MemoryRow& row) {
  std::string text = row.peak_bytes > 0 ? "peak " + format_bytes(row.peak_bytes) : "";
  if (const std::string cap = cap_text(row.peak_bytes, row.cap_bytes); !cap.empty()) text += ", " + cap;
  if (!row.contents) return text;
  if (row.contents->total() == row.peak_bytes) return text + ": " + parts_text(*row.contents);
  return text + (text.empty() ? "" : "; ") + "predicted " + format_bytes(row.contents->total()) + ": " + parts_text(*row.contents);
}

std::string cap_text(std::int64_t peak_bytes, std::int64_t cap_bytes) {
  if (peak_bytes <= 0 || cap_bytes <= 0) return "";
  if (peak_bytes > cap_bytes) return fmt::format("OVER its cap of {} by {}", format_bytes(cap_bytes), format_bytes(peak_bytes - cap_bytes));
  return fmt::format("{} of {}", format_percent(static_cast<double>(peak_bytes) / static_cast<double>(cap_bytes)), format_bytes(cap_bytes));
}

std::string render_memory(const TraceReport& report, const TextStyle& style) {
  int label = 0;
  int margin = 0;
  for (const MemoryRow& row : report.memory) {
    label = std::max(label, display_width(shortened(row.device, most_label(style))));
    margin = std::max(margin, row.cap_bytes > 0 ? display_width(" cap " + format_bytes(row.cap_bytes)) : 0);
  }
  const int rows = report.memory.size() <= kMostTall ? kDrawnRows : 1;
  std::string text;
  for (const MemoryRow& row : report.memory) {
    if (most_of(row) == 0) continue;
    std::string name = paint(style, is_over(row) ? Color::red : Color::none, pad_right(shortened(row.device, label), label)) + "  ";
    if (!row.samples.empty()) {
      text += picture_text(row, name, report.timeline_s, rows, rows > 1 ? margin : 0, style);
      name = repeat(" ", display_width(name));
    }
    text += hanging(name, contents_text(row), style);
  }
  return text;
}

}  // namespace mptune::reports

#include "reports/render/ranks_text.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/table.h"

namespace mptune::reports {
namespace {

using profiler::AlignedClock;
using profiler::ClockSource;
using profiler::MergedRank;
using profiler::MergedRanks;

constexpr std::size_t kMostNamed = 16;

double seconds_of(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Returns "+5.12 ms, drift +12.3 ppm".
std::string clock_text(const MergedRank& rank) {
  const AlignedClock& clock = rank.clock;
  const double offset = seconds_of(rank.clock_offset);
  const std::string shift = (offset < 0 ? "-" : "+") + format_seconds(std::abs(offset));
  switch (clock.source) {
    case ClockSource::reference:
      return "reference";
    case ClockSource::wall_clock:
      return "as it stands";
    case ClockSource::communications:
      return fmt::format("{}, drift {:+.3g} ppm", shift, 1e6 * clock.clock.drift);
    case ClockSource::none:
      break;
  }
  return "not known";
}

std::string communications_text(const MergedRank& rank, bool in_steps) {
  std::string text = std::to_string(rank.communications);
  if (rank.unmatched > 0) text += fmt::format(", {} without counterpart", rank.unmatched);
  if (rank.unequal > 0) text += fmt::format(" ({} of another size)", rank.unequal);
  if (rank.outside > 0) text += fmt::format(", {} beyond the common {}", rank.outside, in_steps ? "steps" : "time");
  if (rank.alone > 0) text += fmt::format(", {} with ranks that have no file", rank.alone);
  return text;
}

std::string missing_words(const MergedRanks& merged) {
  const bool one = merged.missing.size() == 1;
  std::string text = "no file of " + std::string(one ? "rank " : "ranks ") + list_of_numbers(merged.missing) +
                     ": how long others waited for " + (one ? "it" : "them") + " is not known";
  if (merged.with_missing > Nanoseconds{0})
    text += fmt::format("; all devices together are in collectives with {} for {} after all others had come", one ? "it" : "them",
                        format_seconds(seconds_of(merged.with_missing)));
  return text;
}

const char* name_of(ClockSource source) {
  switch (source) {
    case ClockSource::reference:
      return "reference";
    case ClockSource::communications:
      return "communications";
    case ClockSource::wall_clock:
      return "wall_clock";
    case ClockSource::none:
      break;
  }
  return "unknown";
}

}  // namespace

std::string list_of_numbers(const std::vector<int>& numbers) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < numbers.size() && i < kMostNamed; ++i) words.push_back(std::to_string(numbers[i]));
  return join(words, ", ") + (numbers.size() > kMostNamed ? ", ..." : "");
}

std::string render_ranks(const MergedRanks& merged, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  for (const MergedRank& rank : merged.ranks) {
    const bool compared = rank.clock.source == ClockSource::communications;
    rows.push_back({std::to_string(rank.rank) + (rank.rank_assumed ? " (assumed)" : ""),
                    std::filesystem::path(rank.file).filename().string(), clock_text(rank),
                    compared ? format_seconds(seconds_of(rank.clock.error)) : "-",
                    communications_text(rank, merged.common_window == Nanoseconds{0})});
  }
  std::string text = "Ranks\n" + render_table({{"rank"}, {"file"}, {"clock"}, {"error", true}, {"communications"}}, rows, style);
  if (!merged.missing.empty()) text += hanging("", missing_words(merged), style);
  if (merged.common_window > Nanoseconds{0})
    text += hanging("",
                    fmt::format("the recordings have no steps and cover different times: what follows is of the {} that all of them hold",
                                format_seconds(seconds_of(merged.common_window))),
                    style);
  return text + "\n";
}

void put_ranks(planner::Json& json, const MergedRanks& merged) {
  json["ranks"] = planner::Json::array();
  for (const MergedRank& rank : merged.ranks) {
    json["ranks"].push_back({{"rank", rank.rank},
                             {"rank_assumed", rank.rank_assumed},
                             {"file", rank.file},
                             {"clock_source", name_of(rank.clock.source)},
                             {"clock_offset_s", seconds_of(rank.clock_offset)},
                             {"clock_drift", rank.clock.clock.drift},
                             {"clock_error_s", seconds_of(rank.clock.error)},
                             {"communications", rank.communications},
                             {"without_counterpart", rank.unmatched},
                             {"of_unequal_size", rank.unequal},
                             {"beyond_common_steps", rank.outside},
                             {"with_missing_ranks", rank.alone}});
  }
  json["missing_ranks"] = merged.missing;
  if (!merged.missing.empty()) json["with_missing_ranks_s"] = seconds_of(merged.with_missing);
  if (merged.common_window > Nanoseconds{0}) json["common_window_s"] = seconds_of(merged.common_window);
}

}  // namespace mptune::reports

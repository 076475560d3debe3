#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/trace/formats/action_times.h"
#include "profiler/trace/formats/action_values.h"
#include "profiler/trace/formats/text_lines.h"

namespace mptune::profiler {
namespace {

constexpr const char* kActionTableRemedy =
    "give a table with the columns rank, kind, start_ms and end_ms; see docs/traces.md, Times of a pipeline's actions";
constexpr int kLastIteration = 1 << 30;

class ActionTable {
 public:
  explicit ActionTable(TextInput& input) : lines_(input, kActionTableRemedy) { times_.where = input.where(); }

  ActionTimes read() {
    if (!lines_.next()) lines_.refuse("the table is empty");
    read_header();
    while (lines_.next()) read_row();
    number();
    return std::move(times_);
  }

 private:
  void read_header() {
    const std::vector<std::string> names = split(lines_.line(), ',');
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string name(trimmed(names[i]));
      columns_[name == "minibatch" ? "microbatch" : name] = i;
    }
    for (const char* needed : {"rank", "kind", "start_ms", "end_ms"})
      if (!columns_.contains(needed)) lines_.refuse("the column " + std::string(needed) + " is missing");
    width_ = names.size();
  }

  // Returns a cell of a column; "" if the table has no such column.
  [[nodiscard]] std::string_view cell(const char* column) const {
    const auto found = columns_.find(column);
    return found == columns_.end() ? std::string_view{} : trimmed(cells_[found->second]);
  }

  [[nodiscard]] int whole(const char* column, int most, int absent) const {
    const std::string_view text = cell(column);
    if (text.empty()) return absent;
    const auto number = integer(text);
    if (!number || *number < 0 || *number > most)
      lines_.refuse(std::string(column) + " is not a whole number from 0 to " + std::to_string(most));
    return static_cast<int>(*number);
  }

  [[nodiscard]] double milliseconds(const char* column) const {
    const std::string_view text = cell(column);
    double value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc{} || end != text.data() + text.size()) lines_.refuse(std::string(column) + " is not a number");
    return value;
  }

  [[nodiscard]] EventKind kind() const {
    const std::string_view text = cell("kind");
    if (text == "fwd") return EventKind::forward;
    if (text == "bwd") return EventKind::backward;
    if (text == "wgrad") return EventKind::backward_weight;
    lines_.refuse("the kind is neither fwd nor bwd nor wgrad");
  }

  void read_row() {
    cells_ = split(lines_.line(), ',');
    if (cells_.size() != width_)
      lines_.refuse(std::to_string(cells_.size()) + " cells in a table of " + std::to_string(width_) + " columns");
    if (std::ssize(times_.actions) >= kMostActions) lines_.refuse("more than 4 million forwards and backwards");
    const std::string run(cell("run"));
    if (!times_.actions.empty() && run != run_) lines_.refuse("the table holds several runs");
    run_ = run;
    TimedAction action{.kind = kind(),
                       .rank = whole("rank", kLastRank, -1),
                       .iteration = whole("iteration", kLastIteration, 0),
                       .nth = whole("nth", kLastMicrobatch, -1),
                       .microbatch = whole("microbatch", kLastMicrobatch, -1),
                       .chunk = whole("chunk", kLastChunk, -1)};
    if (action.rank < 0) lines_.refuse("the rank is missing");
    if (const std::string fault = put_times(action, milliseconds("start_ms"), milliseconds("end_ms")); !fault.empty())
      lines_.refuse("the action " + fault);
    times_.ranks = std::max(times_.ranks, action.rank + 1);
    times_.actions.push_back(action);
  }

  // Numbers the rows of each kind. Rows without a number come in the order of their start; numbers that are stated give the order only.
  void number() {
    std::ranges::stable_sort(times_.actions, {}, [](const TimedAction& a) { return std::tuple(a.nth < 0 ? 0 : a.nth, a.start); });
    std::map<std::tuple<int, int, EventKind>, int> counts;
    for (TimedAction& action : times_.actions) action.nth = counts[{action.iteration, action.rank, action.kind}]++;
  }

  TextLines lines_;
  ActionTimes times_;
  std::map<std::string, std::size_t> columns_;
  std::size_t width_ = 0;
  std::vector<std::string> cells_;
  std::string run_;
};

}  // namespace

ActionTimes read_action_table(TextInput& input) {
  return ActionTable(input).read();
}

}  // namespace mptune::profiler

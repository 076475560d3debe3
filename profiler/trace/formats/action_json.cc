#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/json_field.h"
#include "profiler/base/text.h"
#include "profiler/trace/formats/action_times.h"
#include "profiler/trace/formats/action_values.h"

namespace mptune::profiler {
namespace {

constexpr const char* kActionRemedy = "give the folder that Primus wrote with --dump_pp_data, or its files pp_rank_N.json";
constexpr JsonLimits kActionLimits{.depth = 8, .values = std::int64_t{1} << 25};
constexpr std::int64_t kLastNumber = 1 << 30;  // of an iteration; ranks have a limit of their own
constexpr std::int64_t kMostGiB = std::int64_t{1} << 20;

struct KindKey {
  const char* key;
  EventKind kind;
};
constexpr std::array kKindKeys{KindKey{"fwd", EventKind::forward}, KindKey{"bwd", EventKind::backward},
                               KindKey{"wgrad", EventKind::backward_weight}};

bool is_iteration(const JsonField& value) {
  return value.is_object() && value.has("fwd_start") && value.has("fwd_end");
}

// Returns the number at the end of a key or a file's name: "rank 3", "pp_rank_3", "3".
std::optional<int> number_at_end(const std::string& text) {
  const std::size_t at = text.find_last_not_of("0123456789");
  const auto number = integer(text.substr(at == std::string::npos ? 0 : at + 1));
  return number && *number <= kLastNumber ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

bool names_rank_of(const std::string& key) {
  return key.find("rank") != std::string::npos;
}

bool names_iteration_of(const std::string& key) {
  return key.find("iter") != std::string::npos || key.find("step") != std::string::npos;
}

/// The keys of one level of a document.
struct LevelKeys {
  bool ranks = false;       ///< a key says "rank"
  bool iterations = false;  ///< a key says that it is of an iteration
  std::set<int> numbers{};

  [[nodiscard]] bool count_from_0() const { return numbers.contains(0) && *numbers.rbegin() + 1 == std::ssize(numbers); }
};

class ActionReader {
 public:
  explicit ActionReader(ActionTimes& times) : times_(times) {}

  // Reads one object per rank or per iteration, or the only rank's object.
  void read(const JsonField& document, int rank, bool is_list) {
    int next = 0;
    if (is_list) return document.each([&](const JsonField& one) { read_rank(one, next++); });
    if (is_iteration(document)) return read_iteration(document, std::max(rank, 0), 0);
    LevelKeys outer, inner;
    bool is_deep = false;
    document.each_member([&](const std::string& key, const JsonField& one) {
      note(outer, key, one);
      if (!one.is_object() || is_iteration(one)) return;
      is_deep = true;
      one.each_member([&](const std::string& below, const JsonField& value) { note(inner, below, value); });
    });
    if (is_deep)
      read_deep(document, outer, inner);
    else if (outer.ranks || (rank < 0 && !outer.iterations && outer.numbers.size() > 1 && outer.count_from_0()))
      document.each_member([&](const std::string& key, const JsonField& one) { read_rank(one, number_of(key, one)); });
    else
      read_rank(document, std::max(rank, 0));
  }

 private:
  static int number_of(const std::string& key, const JsonField& value) {
    const auto number = number_at_end(key);
    if (!number) value.fail("its name ends with no number of a rank or an iteration");
    return *number;
  }

  static void note(LevelKeys& level, const std::string& key, const JsonField& value) {
    level.ranks = level.ranks || names_rank_of(key);
    level.iterations = level.iterations || names_iteration_of(key);
    level.numbers.insert(number_of(key, value));
  }

  // Reads ranks of iterations, or iterations of ranks: if no key says which, ranks count from 0 and Primus's iterations from 1.
  void read_deep(const JsonField& document, const LevelKeys& outer, const LevelKeys& inner) {
    const bool by_number = !outer.ranks && !inner.iterations && !outer.numbers.contains(0) && inner.count_from_0();
    const bool iterations_first = outer.iterations || inner.ranks || by_number;
    document.each_member([&](const std::string& key, const JsonField& one) {
      const int first = number_of(key, one);
      if (!iterations_first) return read_rank(one, first);
      one.each_member([&](const std::string& below, const JsonField& value) { read_iteration(value, number_of(below, value), first); });
    });
  }

  void read_rank(const JsonField& value, int rank) {
    if (is_iteration(value)) return read_iteration(value, rank, 0);
    value.each_member([&](const std::string& key, const JsonField& one) { read_iteration(one, rank, number_of(key, one)); });
  }

  void read_iteration(const JsonField& value, int rank, int iteration) {
    if (rank > kLastRank) value.fail("more than 4096 ranks");
    times_.ranks = std::max(times_.ranks, rank + 1);
    times_.peak_bytes.resize(as_index(times_.ranks), 0);
    if (const auto memory = value.find("memory")) {
      const double gib = memory->number();
      if (gib < 0 || gib > static_cast<double>(kMostGiB)) memory->refuse("is out of range");
      std::int64_t& peak = times_.peak_bytes[as_index(rank)];
      peak = std::max(peak, static_cast<std::int64_t>(std::llround(gib * (std::int64_t{1} << 30))));
    }
    for (const KindKey& one : kKindKeys) read_kind(value, one, {.kind = one.kind, .rank = rank, .iteration = iteration});
  }

  void read_kind(const JsonField& value, const KindKey& one, TimedAction action) {
    const std::string key = one.key;
    const auto start = value.find(key + "_start"), end = value.find(key + "_end");
    if (!start && !end) return;
    const std::vector<double> starts = value.at(key + "_start").numbers(), ends = value.at(key + "_end").numbers();
    if (starts.size() != ends.size()) end->fail(std::to_string(ends.size()) + " ends of " + std::to_string(starts.size()) + " starts");
    const std::vector<int> microbatches = stated(value, key + "_minibatch", starts.size(), kLastMicrobatch);
    const std::vector<int> chunks = stated(value, key + "_chunk", starts.size(), kLastChunk);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      action.nth = static_cast<int>(i);
      action.microbatch = microbatches.empty() ? -1 : microbatches[i];
      action.chunk = chunks.empty() ? -1 : chunks[i];
      if (const std::string fault = put_times(action, starts[i], ends[i]); !fault.empty())
        end->fail("number " + std::to_string(i) + " " + fault);
      if (std::ssize(times_.actions) >= kMostActions) value.fail("more than 4 million forwards and backwards");
      times_.actions.push_back(action);
    }
  }

  // Reads a list with one number per action; empty if the file does not state them.
  static std::vector<int> stated(const JsonField& value, const std::string& key, std::size_t count, int last) {
    const auto list = value.find(key);
    std::vector<int> numbers = list ? list->integers() : std::vector<int>{};
    if (numbers.empty()) return numbers;
    if (numbers.size() != count) list->fail(std::to_string(numbers.size()) + " numbers for " + std::to_string(count) + " actions");
    if (std::ranges::any_of(numbers, [&](int number) { return number < 0 || number > last; })) list->refuse("is out of range");
    return numbers;
  }

  ActionTimes& times_;
};

// Reads what config.json says about the job.
void take_configuration(ActionTimes& times, const std::string& path) {
  TextInput input = open_text(path);
  const JsonSource source{path, "", kActionRemedy};
  const nlohmann::json document = parse_json(whole_text(input), source, kActionLimits);
  const JsonField root(document, source);
  if (!root.is_object()) return;
  const auto number = [&](const char* key, const char* other, int most) {
    const auto field = root.has(key) ? root.find(key) : root.find(other);
    return field ? static_cast<int>(field->whole(1, most)) : 0;
  };
  times.ranks = std::max(times.ranks, number("pp_size", "pp_size", kLastRank + 1));
  times.chunks = number("vp_size", "vpp_size", kLastChunk + 1);
  times.microbatches = number("num_mbs", "micro_batches", kLastMicrobatch + 1);
}

bool is_table(TextInput& input) {
  int c = input.sgetc();
  while (c == ' ' || c == '\t' || c == '\r' || c == '\n') c = input.snextc();
  return c != '{' && c != '[';
}

// Returns 3 for "pp_rank_3.json"; other numbers in names are not ranks.
std::optional<int> rank_of_file(const std::string& path) {
  const std::string stem = rank_stem(path);
  const auto number = names_rank_of(stem) ? number_at_end(stem) : std::nullopt;
  if (number && *number > kLastRank) throw Error("its name is that of one of more than 4096 ranks", path, kActionRemedy);
  return number;
}

// Returns the folder's files of ranks, by rank.
std::vector<std::string> files_of_folder(const std::string& folder) {
  std::map<std::pair<int, std::string>, std::string> files;
  std::error_code fault;
  for (std::filesystem::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault)) {
    const std::string stem = rank_stem(at->path().string());
    if (!stem.starts_with("pp_rank_")) continue;
    const auto rank = number_at_end(stem);
    if (rank && *rank <= kLastRank) files[{*rank, stem}] = at->path().string();
  }
  std::vector<std::string> paths;
  for (const auto& [key, path] : files) paths.push_back(path);
  return paths;
}

// Adds the actions of a file of other ranks.
void append(ActionTimes& all, ActionTimes part, std::set<int>& ranks) {
  std::set<int> own;
  for (const TimedAction& action : part.actions) own.insert(action.rank);
  for (const int rank : own)
    if (!ranks.insert(rank).second)
      throw Error("another file is of rank " + std::to_string(rank), part.where, "give one file of every rank");
  if (std::ssize(all.actions) + std::ssize(part.actions) > kMostActions)
    throw Error("the files hold more than 4 million forwards and backwards", part.where, "give fewer iterations");
  all.actions.insert(all.actions.end(), part.actions.begin(), part.actions.end());
  all.ranks = std::max(all.ranks, part.ranks);
  all.peak_bytes.resize(as_index(all.ranks), 0);
  for (std::size_t rank = 0; rank < part.peak_bytes.size(); ++rank)
    all.peak_bytes[rank] = std::max(all.peak_bytes[rank], part.peak_bytes[rank]);
}

}  // namespace

ActionTimes read_action_json(TextInput& input, int rank) {
  ActionTimes times;
  times.where = input.where();
  const JsonSource source{input.where(), "", kActionRemedy};
  const nlohmann::json document = parse_json(whole_text(input), source, kActionLimits);
  ActionReader(times).read(JsonField(document, source), rank, document.is_array());
  return times;
}

bool holds_action_times(const std::string& path) {
  std::error_code fault;
  if (std::filesystem::is_directory(path, fault)) return !files_of_folder(path).empty();
  try {
    TextInput input = open_text(path);
    return begins_like_actions(input);
  } catch (const Error&) {
    return false;
  }
}

ActionTimeline read_action_timeline(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code fault;
    if (!std::filesystem::is_directory(path, fault)) {
      files.push_back(path);
      continue;
    }
    const std::vector<std::string> inside = files_of_folder(path);
    if (inside.empty()) throw Error("the folder holds no file pp_rank_N.json", path, kActionRemedy);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  ActionTimes times;
  times.where = paths.size() == 1 ? paths.front() : files.front();
  std::set<int> ranks;
  for (std::size_t i = 0; i < files.size(); ++i) {
    TextInput input = open_text(files[i]);
    const int rank = rank_of_file(files[i]).value_or(files.size() > 1 ? static_cast<int>(i) : -1);
    append(times, is_table(input) ? read_action_table(input) : read_action_json(input, rank), ranks);
  }
  const std::filesystem::path beside = std::filesystem::path(files.front()).parent_path() / "config.json";
  std::error_code fault;
  if (std::filesystem::is_regular_file(beside, fault) && rank_stem(files.front()).starts_with("pp_rank_"))
    take_configuration(times, beside.string());
  return timeline_of(std::move(times));
}

}  // namespace mptune::profiler

#include "profiler/trace/ranks/communicators.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/trace/ranks/clocks.h"
#include "profiler/trace/ranks/meetings.h"
#include "profiler/trace/values/kernel_names.h"
#include "profiler/trace/values/settle.h"

namespace mptune::profiler {
namespace {

constexpr const char* kMessages = "sendrecv";
constexpr double kMostApart = 0.1;        // share of pairs that need not end together
constexpr std::size_t kMostCompared = 4;  // members of a communicator that a further stream is compared with
constexpr std::size_t kPairsCompared = 128;
constexpr std::size_t kEnoughToVary = 4;

/// A kernel of a stream.
struct NcclRun {
  Nanoseconds start{0};
  Nanoseconds end{0};
  std::string operation;
  bool is_message = false;          // as far as known: all-to-alls run the same kernels
  std::vector<int> communications;  // of the recording
};

/// A stream of one recording that communicates, and its kernels by step (-1: without steps).
struct NcclStream {
  int recording = 0;
  std::int64_t id = 0;
  std::map<int, std::vector<NcclRun>> steps;
};

struct RunPair {
  const NcclRun* a = nullptr;
  const NcclRun* b = nullptr;
};

enum class Likeness { none, possible, certain };

/// How close ends must lie. `loose`: those of long kernels, and of kernels that waited long, may lie further apart.
enum class Closeness { close, strict, loose };

bool have_equal_operations(const std::vector<NcclRun>& a, const std::vector<NcclRun>& b) {
  return std::ranges::equal(a, b, {}, &NcclRun::operation, &NcclRun::operation);
}

// Returns the kernels of the steps in which both ran the same; empty if these are fewer than half of the steps that both have.
std::vector<RunPair> pairs_of(const NcclStream& a, const NcclStream& b) {
  std::vector<RunPair> pairs;
  std::size_t common = 0, equal = 0;
  for (const auto& [step, runs] : a.steps) {
    const auto other = b.steps.find(step);
    if (other == b.steps.end()) continue;
    ++common;
    if (!have_equal_operations(runs, other->second)) continue;
    ++equal;
    for (std::size_t i = 0; i < runs.size(); ++i) pairs.push_back({&runs[i], &other->second[i]});
  }
  if (2 * equal < common) return {};
  if (pairs.size() <= kPairsCompared) return pairs;
  std::vector<RunPair> some;
  for (std::size_t i = 0; i < kPairsCompared; ++i) some.push_back(pairs[i * pairs.size() / kPairsCompared]);
  return some;
}

// `clock` puts `b` on the clock of `a`.
bool end_together(const RunPair& pair, const Clock& clock, Closeness closeness) {
  const Nanoseconds start = clock.common(pair.b->start), end = clock.common(pair.b->end);
  const Nanoseconds begun = std::max(pair.a->start, start), left = std::min(pair.a->end, end);
  const Nanoseconds shortest = std::min(pair.a->end - pair.a->start, end - start);
  if (begun > left + kEndsTogether) return false;
  if (closeness != Closeness::loose) return std::chrono::abs(pair.a->end - end) <= kEndsTogether / (closeness == Closeness::close ? 4 : 1);
  return std::chrono::abs(pair.a->end - end) <= std::max({kEndsTogether, std::chrono::abs(pair.a->start - start) / 4, shortest / 10});
}

bool most_end_together(const std::vector<RunPair>& pairs, const Clock& clock, Closeness closeness) {
  const auto apart = std::ranges::count_if(pairs, [&](const RunPair& pair) { return !end_together(pair, clock, closeness); });
  return static_cast<double>(apart) <= kMostApart * static_cast<double>(pairs.size());
}

// Returns the width of the middle eight tenths.
Nanoseconds spread_of(std::vector<Nanoseconds> values) {
  std::ranges::sort(values);
  return values[values.size() - 1 - values.size() / 10] - values[values.size() / 10];
}

// True if the beginnings vary. On clocks that were fitted to the ends, a constant distance says nothing: the clocks absorb it.
bool beginnings_vary(const std::vector<RunPair>& pairs, const Clock& clock) {
  if (pairs.size() < kEnoughToVary) return false;
  std::vector<Nanoseconds> starts, ends;
  for (const RunPair& pair : pairs) {
    starts.push_back(pair.a->start - clock.common(pair.b->start));
    ends.push_back(pair.a->end - clock.common(pair.b->end));
  }
  return spread_of(starts) > 4 * std::max(spread_of(ends), kEndsTogether);
}

// Returns the clock that puts times of `b` on the clock of `a`, as the files have them.
std::optional<Clock> clock_of_files(const RankRecording& a, const RankRecording& b) {
  if (a.trace.started_utc_ns > 0 && b.trace.started_utc_ns > 0)
    return Clock{Nanoseconds{b.trace.started_utc_ns - a.trace.started_utc_ns}, 0};
  if (a.origin && b.origin) return Clock{*b.origin - *a.origin, 0};
  return std::nullopt;
}

class CommunicatorFinder {
 public:
  explicit CommunicatorFinder(std::vector<RankRecording>& recordings) : recordings_(recordings) {}

  void find() {
    gather();
    std::vector<int> with_collectives, of_messages;
    for (int s = 0; s < static_cast<int>(streams_.size()); ++s)
      (only_sends(streams_[as_index(s)]) ? of_messages : with_collectives).push_back(s);
    place(with_collectives);
    name_found();
    if (!of_messages.empty()) clocks_ = align_clocks(recordings_, find_meetings(recordings_));
    place(of_messages);
    take_as_one();
    name_found();
  }

 private:
  void gather() {
    std::map<std::tuple<int, int, std::int64_t>, int> known;
    for (int r = 0; r < static_cast<int>(recordings_.size()); ++r) {
      const RankRecording& recording = recordings_[as_index(r)];
      std::map<int, std::pair<int, std::size_t>> run_of;  // by event: stream and place
      for (int c = 0; c < static_cast<int>(recording.communications.size()); ++c) {
        const Communication& one = recording.communications[as_index(c)];
        if (one.described || one.kind != Communication::Kind::collective) continue;
        const Event& event = recording.trace.events[as_index(one.event)];
        const std::int64_t id = stream_of(recording.trace, event);
        const auto [place, is_new] = known.try_emplace({r, event.device, id}, static_cast<int>(streams_.size()));
        if (is_new) streams_.push_back({r, id, {}});
        std::vector<NcclRun>& runs = streams_[as_index(place->second)].steps[one.step];
        const auto [run, first] = run_of.try_emplace(one.event, place->second, runs.size());
        if (first)
          runs.push_back({.start = event.start,
                          .end = event.end(),
                          .operation = operation_of_kernel(recording.trace.names[as_index(event.name)]),
                          .is_message = one.operation == kMessages,
                          .communications = std::vector<int>{c}});
        else
          runs[run->second.second].communications.push_back(c);
      }
    }
  }

  // Readers give streams lanes: where the stream is not known, its lane stands for it.
  static std::int64_t stream_of(const Trace& trace, const Event& event) {
    return event.detail < 0 ? -1 - std::int64_t{event.lane} : trace.kernels[as_index(event.detail)].stream;
  }

  // Returns clocks that are known before any kernels are compared, `b` on the clock of `a`.
  std::vector<Clock> known_clocks(const NcclStream& a, const NcclStream& b) const {
    std::vector<Clock> known;
    if (const auto files = clock_of_files(recordings_[as_index(a.recording)], recordings_[as_index(b.recording)])) known.push_back(*files);
    const auto met = [&](const NcclStream& stream) {
      if (clocks_.empty()) return false;
      const ClockSource source = clocks_[as_index(stream.recording)].source;
      return source == ClockSource::reference || source == ClockSource::communications;
    };
    if (met(a) && met(b)) known.push_back(clocks_[as_index(b.recording)].clock.then(clocks_[as_index(a.recording)].clock.inverse()));
    return known;
  }

  // If known clocks have been right for other streams, no clock is fitted. No clock is fitted to sends and receives: in a pipeline they end
  // at constant distances on ranks that exchange nothing.
  Likeness likeness(const NcclStream& a, const NcclStream& b, Closeness closeness) {
    const std::vector<RunPair> pairs = pairs_of(a, b);
    if (pairs.empty()) return Likeness::none;
    const std::pair recordings = std::minmax(a.recording, b.recording);
    for (const Clock& clock : known_clocks(a, b)) {
      if (!most_end_together(pairs, clock, closeness)) continue;
      proven_.insert(recordings);
      return Likeness::certain;
    }
    if (proven_.contains(recordings)) return Likeness::none;
    std::vector<RunPair> collectives;
    std::ranges::copy_if(pairs, std::back_inserter(collectives), [](const RunPair& pair) { return !pair.a->is_message; });
    const std::vector<RunPair>& fitting = collectives.empty() ? pairs : collectives;
    std::vector<EndPair> ends;
    for (const RunPair& pair : fitting) ends.push_back({pair.a->end, pair.b->end});
    const Clock fitted = fit_clock(ends)->clock;
    if (!most_end_together(pairs, fitted, closeness)) return Likeness::none;
    return !collectives.empty() && beginnings_vary(collectives, fitted) ? Likeness::certain : Likeness::possible;
  }

  // Compares some members of one communicator with some of the other: one pair must match for certain, and all others possibly. Ranks that
  // begin together prove nothing to each other.
  bool are_one(const std::vector<int>& a, const std::vector<int>& b, Closeness closeness) {
    const auto recording_of = [&](int s) { return streams_[as_index(s)].recording; };
    Likeness most = Likeness::none;
    for (const int member : a)
      if (std::ranges::any_of(b, [&](int other) { return recording_of(member) == recording_of(other); })) return false;
    for (std::size_t m = 0; m < a.size() && m < kMostCompared; ++m)
      for (std::size_t n = 0; n < b.size() && n < kMostCompared; ++n) {
        const Likeness one = likeness(streams_[as_index(a[m])], streams_[as_index(b[n])], closeness);
        if (one == Likeness::none) return false;
        most = std::max(most, one);
      }
    return most == Likeness::certain;
  }

  // Matches the streams whose ends lie closest together first.
  void place(const std::vector<int>& streams) {
    std::vector<std::vector<int>> all;
    for (const int s : streams) all.push_back({s});
    for (const Closeness closeness : {Closeness::close, Closeness::strict, Closeness::loose}) {
      const auto is_settled = [&](const std::vector<int>& one) { return closeness == Closeness::loose && one.size() > 1; };
      std::vector<std::vector<int>> joined;
      std::ranges::copy_if(all, std::back_inserter(joined), is_settled);
      for (const std::vector<int>& one : all)
        if (!is_settled(one)) join(one, closeness, joined);
      all = std::move(joined);
    }
    communicators_.insert(communicators_.end(), all.begin(), all.end());
  }

  void join(const std::vector<int>& one, Closeness closeness, std::vector<std::vector<int>>& communicators) {
    const auto has_id = [&](const std::vector<int>& other) {
      return streams_[as_index(other.front())].id == streams_[as_index(one.front())].id;
    };
    std::vector<int>* best = nullptr;
    for (std::vector<int>& communicator : communicators)
      if ((best == nullptr || (has_id(communicator) && !has_id(*best))) && are_one(communicator, one, closeness)) best = &communicator;
    if (best == nullptr)
      communicators.push_back(one);
    else
      best->insert(best->end(), one.begin(), one.end());
  }

  void take_as_one() {
    if (streams_.size() != recordings_.size() || streams_.size() < 2 || communicators_.size() != streams_.size()) return;
    std::set<int> with_stream;
    for (const NcclStream& stream : streams_) with_stream.insert(stream.recording);
    if (with_stream.size() != recordings_.size() || (recordings_.size() > 2 && only_sends(streams_.front()))) return;
    for (std::size_t a = 0; a < streams_.size(); ++a)
      for (std::size_t b = a + 1; b < std::min(streams_.size(), a + kMostCompared); ++b)
        if (likeness(streams_[a], streams_[b], Closeness::loose) == Likeness::none) return;
    std::vector<int> all;
    for (const std::vector<int>& one : communicators_) all.push_back(one.front());
    communicators_ = {all};
  }

  static bool only_sends(const NcclStream& stream) {
    return std::ranges::all_of(stream.steps, [](const auto& step) { return std::ranges::all_of(step.second, &NcclRun::is_message); });
  }

  void name_found() {
    for (std::vector<int>& communicator : communicators_)
      if (communicator.size() > 1) name(std::exchange(communicator, {}));
    std::erase_if(communicators_, [](const std::vector<int>& communicator) { return communicator.empty(); });
  }

  // Names a communicator. Steps in which a member ran something else than the first member stay without a group.
  void name(const std::vector<int>& communicator) {
    std::vector<int> members;
    for (const int s : communicator) members.push_back(recordings_[as_index(streams_[as_index(s)].recording)].rank);
    const std::string group = "communicator " + std::to_string(named_++);
    const NcclStream& first = streams_[as_index(communicator.front())];
    for (const int s : communicator) {
      const NcclStream& stream = streams_[as_index(s)];
      for (const auto& [step, runs] : stream.steps) {
        const auto model = first.steps.find(step);
        if (model != first.steps.end() && !have_equal_operations(model->second, runs)) continue;
        for (std::size_t i = 0; i < runs.size(); ++i) name(stream.recording, runs[i], group, members, i);
      }
    }
  }

  void name(int recording, const NcclRun& run, const std::string& group, const std::vector<int>& members, std::size_t place) {
    // Several communications of one kernel meet as one.
    for (const int c : run.communications) {
      Communication& one = recordings_[as_index(recording)].communications[as_index(c)];
      one.group = group;
      one.members = members;
      one.operation = run.operation;
      one.sequence = (std::int64_t{one.step} + 1) * kMostPlaces + static_cast<std::int64_t>(place);
    }
  }

  static constexpr std::int64_t kMostPlaces = std::int64_t{1} << 31;

  std::vector<RankRecording>& recordings_;
  std::vector<NcclStream> streams_;              // by recording
  std::vector<std::vector<int>> communicators_;  // of streams
  std::vector<AlignedClock> clocks_;             // by recording, from the communicators that run collectives
  std::set<std::pair<int, int>> proven_;         // recordings whose known clocks some kernels have proven
  int named_ = 0;
};

bool is_message(const Communication& one) {
  return !one.described && one.kind != Communication::Kind::collective;
}

// The numbers in a message's name count within its group. They are ranks if the group is that of all processes.
void settle_messages(std::vector<RankRecording>& recordings) {
  const bool are_ranks = std::ranges::all_of(recordings, [](const RankRecording& recording) {
    return std::ranges::all_of(recording.communications,
                               [&](const Communication& one) { return !is_message(one) || (one.own == recording.rank && one.peer >= 0); });
  });
  if (are_ranks) return;
  for (RankRecording& recording : recordings) {
    std::set<int> seen;
    std::erase_if(recording.communications, [&](Communication& one) {
      if (!is_message(one)) return false;
      one.kind = Communication::Kind::collective;
      one.operation = kMessages;
      one.peer = -1;
      return !seen.insert(one.event).second;
    });
  }
}

}  // namespace

std::string operation_of_kernel(const std::string& name) {
  std::string plain;
  for (const char letter : name.substr(0, name.find('(')))
    if (letter != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  constexpr std::array<std::string_view, 7> kOperations = {"allreduce", "allgather", "reducescatter", "broadcast",
                                                           "sendrecv",  "alltoall",  "reduce"};
  for (const std::string_view operation : kOperations)
    if (plain.find(operation) != std::string::npos) return std::string(operation == "alltoall" ? kMessages : operation);
  return "nccl";
}

void add_undescribed(std::vector<RankRecording>& recordings) {
  for (RankRecording& recording : recordings) {
    const Trace& trace = recording.trace;
    std::vector<Nanoseconds> called(trace.events.size());
    for (std::size_t i = 0; i < called.size(); ++i) called[i] = trace.events[i].start;
    for (const Launch& launch : trace.launches)
      if (launch.event >= 0) called[as_index(launch.event)] = launch.start;
    const std::size_t described = recording.communications.size();
    std::set<int> covered;
    for (const Communication& one : recording.communications) covered.insert(one.event);
    for (int i = 0; i < static_cast<int>(trace.events.size()); ++i) {
      const Event& event = trace.events[as_index(i)];
      const std::string& name = trace.names[as_index(event.name)];
      if (event.kind != EventKind::collective || !is_nccl_kernel(name) || covered.contains(i)) continue;
      recording.communications.push_back({.operation = operation_of_kernel(name),
                                          .group = "",
                                          .members = {},
                                          .step = step_at(trace.steps, called[as_index(i)]),
                                          .event = i,
                                          .described = false});
    }
    if (recording.communications.size() == described) continue;
    std::ranges::stable_sort(recording.communications, {}, [&](const Communication& one) { return called[as_index(one.event)]; });
  }
}

void find_communicators(std::vector<RankRecording>& recordings) {
  settle_messages(recordings);
  CommunicatorFinder(recordings).find();
}

}  // namespace mptune::profiler

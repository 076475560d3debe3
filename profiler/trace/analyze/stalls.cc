#include "profiler/trace/analyze/stalls.h"

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/replay.h"

namespace mptune::profiler {
namespace {

constexpr double kDeviationsPerSpread = 1.4826;  // of a normal distribution: standard deviation over median absolute deviation
constexpr std::size_t kLeastSteps = 3;
// A late start follows the end of what it waited for by at most this share of the wait.
constexpr int kPromptly = 100;

// What a work waits for last.
enum class Waits : std::uint8_t { nothing, own_lane, other_lane, any };

struct Peers {
  Stall::Kind stall = Stall::Kind::longer;
  EventKind kind = EventKind::forward;
  int device = -1;
  int stage = -1;
  Waits waits = Waits::nothing;  ///< of late starts
  auto operator<=>(const Peers&) const = default;
};

/// The time of one work that may be a stall.
struct Candidate {
  Peers peers;
  int step = 0;
  int work = 0;
  Nanoseconds time{0};
};

Nanoseconds middle_of(std::vector<Nanoseconds>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct Usual {
  Nanoseconds median{0};
  double spread = 0;  ///< [ns], robust standard deviation
};

Usual usual_of(std::vector<Nanoseconds> values) {
  Usual usual{.median = middle_of(values)};
  for (Nanoseconds& value : values) value = value > usual.median ? value - usual.median : usual.median - value;
  usual.spread = kDeviationsPerSpread * static_cast<double>(middle_of(values).count());
  return usual;
}

bool may_stall(const Work& work) {
  return work.tag.stage >= 0 && work.tag.microbatch >= 0 && work.kind <= EventKind::recompute;
}

Waits waits_of(const StepWork& step, const std::vector<int>& last_producer, int work) {
  const int producer = last_producer[as_index(work)];
  if (producer < 0) return Waits::nothing;
  const Work &one = step.works[as_index(work)], &before = step.works[as_index(producer)];
  return one.device == before.device && one.lane == before.lane ? Waits::own_lane : Waits::other_lane;
}

// Returns the producer that ended last, by work; -1: none.
std::vector<int> last_producers_of(const StepWork& step) {
  std::vector<int> last(step.works.size(), -1);
  for (const Edge& edge : step.edges) {
    int& found = last[as_index(edge.consumer)];
    if (found < 0 || step.works[as_index(edge.producer)].end > step.works[as_index(found)].end) found = edge.producer;
  }
  return last;
}

std::vector<Candidate> candidates_of(const std::vector<StepWork>& steps, const std::vector<StallReplay>& replays) {
  std::vector<Candidate> result;
  for (int s = 0; s < static_cast<int>(steps.size()); ++s) {
    const StepWork& step = steps[as_index(s)];
    const StallReplay& replay = replays[as_index(s)];
    const std::vector<int> last = last_producers_of(step);
    for (int w = 0; w < static_cast<int>(step.works.size()); ++w) {
      const Work& work = step.works[as_index(w)];
      if (!may_stall(work)) continue;
      const Peers longer{Stall::Kind::longer, work.kind, work.device, work.tag.stage, Waits::nothing};
      const Peers late{Stall::Kind::late, work.kind, work.device, work.tag.stage, waits_of(step, last, w)};
      result.push_back({longer, s, w, replay.duration[as_index(w)]});
      result.push_back({late, s, w, replay.lag[as_index(w)]});
    }
  }
  return result;
}

/// What is usual for candidates.
class UsualTimes {
 public:
  UsualTimes(const std::vector<StepWork>& steps, const std::vector<Candidate>& candidates) : steps_(steps) {
    std::map<Peers, std::vector<Nanoseconds>> peers;
    std::map<std::pair<Peers, int>, std::vector<Nanoseconds>> places;
    for (const Candidate& one : candidates) {
      peers[one.peers].push_back(one.time);
      if (one.peers.waits != Waits::nothing) peers[whatever_they_wait_for(one.peers)].push_back(one.time);
      places[{one.peers, microbatch(one)}].push_back(one.time);
    }
    for (auto& [key, times] : peers)
      if (times.size() >= kLeastPeers) usual_[key] = usual_of(std::move(times));
    for (auto& [key, times] : places)
      if (times.size() >= kLeastSteps) recurring_[key] = usual_of(std::move(times));
  }

  /// Returns nullopt if it has too few peers, or is usual.
  [[nodiscard]] std::optional<Stall> stall_of(const Candidate& one) const {
    auto peers = usual_.find(one.peers);
    if (peers == usual_.end()) peers = usual_.find(whatever_they_wait_for(one.peers));
    if (peers == usual_.end()) return std::nullopt;
    Usual usual = peers->second;
    if (const auto recurring = recurring_.find({one.peers, microbatch(one)}); recurring != recurring_.end()) {
      usual.median = std::max(usual.median, recurring->second.median);
      usual.spread = std::max(usual.spread, recurring->second.spread);
    }
    const StepWindow& window = steps_[as_index(one.step)].window;
    const auto excess = static_cast<double>((one.time - usual.median).count());
    if (excess <= kLeastStallSpreads * usual.spread ||
        excess <= kLeastStallShare * static_cast<double>((window.end - window.start).count()))
      return std::nullopt;
    return Stall{.kind = one.peers.stall, .step = one.step, .work = one.work, .time = one.time, .typical = usual.median};
  }

 private:
  [[nodiscard]] int microbatch(const Candidate& one) const { return steps_[as_index(one.step)].works[as_index(one.work)].tag.microbatch; }

  static Peers whatever_they_wait_for(Peers peers) {
    if (peers.waits != Waits::nothing) peers.waits = Waits::any;
    return peers;
  }

  const std::vector<StepWork>& steps_;
  std::map<Peers, Usual> usual_;
  std::map<std::pair<Peers, int>, Usual> recurring_;  // of one micro-batch over the steps
};

// Returns the pairs of devices that exchange something in a step.
std::set<std::pair<int, int>> neighbours_of(const StepWork& step) {
  std::set<std::pair<int, int>> pairs;
  for (const Edge& edge : step.edges) {
    const int from = step.works[as_index(edge.producer)].device, to = step.works[as_index(edge.consumer)].device;
    pairs.insert({from, to});
    pairs.insert({to, from});
  }
  return pairs;
}

// Returns the longer action that a late one waited for, among the stalls of its step; -1: none.
int awaited(const StepWork& step, const Stall& late, const std::vector<Stall>& stalls, const std::set<std::pair<int, int>>& neighbours) {
  const Work& work = step.works[as_index(late.work)];
  for (const Stall& other : stalls) {
    if (other.step != late.step || other.kind != Stall::Kind::longer) continue;
    const Work& cause = step.works[as_index(other.work)];
    const Nanoseconds after = work.start - cause.end;
    if (other.work < late.work && cause.device != work.device && neighbours.contains({cause.device, work.device}) &&
        after >= Nanoseconds{0} && after <= late.typical + late.excess() / kPromptly)
      return other.work;
  }
  return -1;
}

// Turns late starts that waited for a longer action into dependencies.
void explain_late_starts(const std::vector<StepWork>& steps, std::vector<StallReplay>& replays, std::vector<Stall>& stalls) {
  std::vector<Stall> rest;
  std::map<int, std::set<std::pair<int, int>>> neighbours;  // by step
  for (const Stall& stall : stalls) {
    if (stall.kind == Stall::Kind::longer) {
      rest.push_back(stall);
      continue;
    }
    const StepWork& step = steps[as_index(stall.step)];
    // A further edge can close a cycle only where others lead back in time, by errors of clocks.
    const auto leads_back = [](const Edge& edge) { return edge.producer >= edge.consumer; };
    const auto [known, is_new] = neighbours.try_emplace(stall.step);
    if (is_new && std::ranges::none_of(step.edges, leads_back)) known->second = neighbours_of(step);
    const int cause = awaited(step, stall, stalls, known->second);
    if (cause < 0) {
      rest.push_back(stall);
      continue;
    }
    StallReplay& replay = replays[as_index(stall.step)];
    replay.edges.push_back({cause, stall.work, EdgeKind::order});
    replay.lag[as_index(stall.work)] = step.works[as_index(stall.work)].start - step.works[as_index(cause)].end;
  }
  stalls = std::move(rest);
}

void price(Stall& stall, StallReplay& replay, Nanoseconds step_time) {
  std::vector<Nanoseconds>& times = stall.kind == Stall::Kind::longer ? replay.duration : replay.lag;
  const Nanoseconds recorded = std::exchange(times[as_index(stall.work)], stall.typical);
  stall.step_time = step_time;
  stall.price = step_time - end_of(replay);
  times[as_index(stall.work)] = recorded;
}

}  // namespace

StallReplay stall_replay(const StepWork& step) {
  StallReplay replay{.edges = step.edges, .lag = {}, .duration = {}};
  std::vector<Nanoseconds> ready(step.works.size(), step.window.start);
  for (const Edge& edge : step.edges) {
    Nanoseconds& time = ready[as_index(edge.consumer)];
    time = std::max(time, step.works[as_index(edge.producer)].end);
  }
  for (std::size_t i = 0; i < step.works.size(); ++i) {
    replay.lag.push_back(std::max(Nanoseconds{0}, step.works[i].start - ready[i]));
    replay.duration.push_back(step.works[i].end - step.works[i].start);
  }
  return replay;
}

Nanoseconds end_of(const StallReplay& replay) {
  std::vector<Nanoseconds> both = replay.duration;
  for (std::size_t i = 0; i < both.size(); ++i) both[i] += replay.lag[i];
  const std::vector<Nanoseconds> start = replay_starts(replay.edges, both);
  Nanoseconds end{0};
  for (std::size_t i = 0; i < start.size(); ++i) end = std::max(end, start[i] + both[i]);
  return end;
}

std::vector<Stall> find_stalls(const std::vector<StepWork>& steps) {
  std::vector<StallReplay> replays;
  for (const StepWork& step : steps) replays.push_back(stall_replay(step));
  const std::vector<Candidate> candidates = candidates_of(steps, replays);
  const UsualTimes usual(steps, candidates);
  std::vector<Stall> stalls;
  for (const Candidate& one : candidates)
    if (const auto stall = usual.stall_of(one)) stalls.push_back(*stall);
  std::ranges::stable_sort(stalls, std::ranges::greater{}, &Stall::excess);
  if (stalls.size() > kMostStalls) stalls.resize(kMostStalls);
  explain_late_starts(steps, replays, stalls);
  std::map<int, Nanoseconds> step_times;
  for (Stall& stall : stalls) {
    StallReplay& replay = replays[as_index(stall.step)];
    const auto [time, is_new] = step_times.try_emplace(stall.step);
    if (is_new) time->second = end_of(replay);
    price(stall, replay, time->second);
  }
  std::ranges::stable_sort(stalls, std::ranges::greater{}, &Stall::price);
  return stalls;
}

}  // namespace mptune::profiler

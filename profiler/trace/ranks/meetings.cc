#include "profiler/trace/ranks/meetings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

// PyTorch and NCCL name one operation in several ways: "_allgather_base", "all_gather", "AllGather".
bool is_symmetric(std::string operation) {
  std::erase(operation, '_');
  std::ranges::transform(operation, operation.begin(), [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  constexpr std::array<std::string_view, 6> kSymmetric = {"allreduce", "allgather", "reducescatter", "alltoall", "barrier", "sendrecv"};
  return std::ranges::any_of(kSymmetric, [&](std::string_view one) { return operation.find(one) != std::string::npos; });
}

/// What equal communications of different recordings have in common, except for their number.
struct Topic {
  std::string group;
  std::string operation;  // "" of sends and receives
  int source = -1;
  int destination = -1;
  auto operator<=>(const Topic&) const = default;
};

/// Tells the communications of a topic apart: sequence number, or step and place in it.
struct Number {
  std::int64_t sequence = -1;
  int step = -1;
  std::int64_t place = 0;
  auto operator<=>(const Number&) const = default;
};

using Key = std::pair<Topic, Number>;

class Matcher {
 public:
  explicit Matcher(const std::vector<RankRecording>& recordings) : recordings_(recordings) {
    for (std::size_t r = 0; r < recordings.size(); ++r) index_of_rank_[recordings[r].rank] = static_cast<int>(r);
    for (auto* counts : {&result_.unmatched, &result_.alone, &result_.unequal, &result_.outside}) counts->assign(recordings.size(), 0);
    result_.without_counterpart.resize(recordings.size());
    std::map<int, std::size_t> having;
    for (const RankRecording& recording : recordings)
      for (const StepWindow& step : recording.trace.steps) ++having[step.step];
    for (const auto& [step, count] : having)
      if (count == recordings.size()) common_steps_.insert(step);
  }

  Meetings match() && {
    for (std::size_t r = 0; r < recordings_.size(); ++r) collect(static_cast<int>(r));
    for (const auto& [key, members] : met_) meet(members);
    return std::move(result_);
  }

 private:
  const Communication& of(const Member& member) const {
    return recordings_[as_index(member.recording)].communications[as_index(member.communication)];
  }

  static bool is_collective(const Communication& one) { return one.kind == Communication::Kind::collective; }

  // True if nothing says with whom a collective meets: to take another rank's collective at the same place would be a guess.
  static bool is_unplaced(const Communication& one) { return is_collective(one) && !one.described && one.group.empty(); }

  // Returns the rank of the other process of a message; -1: not known.
  static int peer_of(const Communication& one, int own) {
    if (one.peer >= 0 || one.members.size() != 2) return one.peer;
    return one.members[0] == own ? one.members[1] : one.members[0];
  }

  static Topic topic_of(const Communication& one, int own) {
    if (is_collective(one)) return {.group = one.group, .operation = one.operation};
    const bool sends = one.kind == Communication::Kind::send;
    const int peer = peer_of(one, own);
    return {.group = one.group, .operation = "", .source = sends ? own : peer, .destination = sends ? peer : own};
  }

  void count_unmatched(const Member& member) {
    ++result_.unmatched[as_index(member.recording)];
    result_.without_counterpart[as_index(member.recording)].push_back(member.communication);
  }

  void count_without_counterpart(const Member& member) {
    const int step = of(member).step;
    const bool is_outside = !recordings_[as_index(member.recording)].trace.steps.empty() && !common_steps_.contains(step);
    const auto recording = as_index(member.recording);
    if (!has_partner(member))
      ++result_.alone[recording];
    else if (is_outside)
      ++result_.outside[recording];
    else
      count_unmatched(member);
  }

  void collect(int recording) {
    const RankRecording& of_rank = recordings_[as_index(recording)];
    std::map<std::tuple<Topic, std::int64_t, int>, std::int64_t> places;
    for (int c = 0; c < static_cast<int>(of_rank.communications.size()); ++c) {
      const Communication& one = of_rank.communications[as_index(c)];
      if (is_unplaced(one)) {
        count_without_counterpart({recording, c});
        continue;
      }
      if (!is_collective(one) && peer_of(one, of_rank.rank) < 0) {
        count_unmatched({recording, c});
        continue;
      }
      const Topic topic = topic_of(one, of_rank.rank);
      const std::int64_t sequence = is_collective(one) ? one.sequence : -1;
      const int step = sequence >= 0 ? -1 : one.step;
      const std::int64_t place = places[{topic, sequence, step}]++;
      met_[{topic, {sequence, step, place}}].push_back({recording, c});
    }
  }

  // True if the recording of another process is there that should hold a counterpart.
  bool has_partner(const Member& member) const {
    const Communication& one = of(member);
    const int own = recordings_[as_index(member.recording)].rank;
    if (!is_collective(one)) return index_of_rank_.contains(peer_of(one, own));
    if (one.members.empty()) return recordings_.size() > 1;
    return std::ranges::any_of(one.members, [&](int rank) { return rank != own && index_of_rank_.contains(rank); });
  }

  // False if a recording of the group holds no counterpart: who arrived last is not known then.
  bool is_complete(const std::vector<Member>& members) const {
    const Communication& first = of(members.front());
    if (!is_collective(first)) return members.size() == 2 && members[0].recording != members[1].recording;
    if (members.size() < 2) return false;
    const auto is_there = [&](int rank) {
      const auto found = index_of_rank_.find(rank);
      return found == index_of_rank_.end() ||
             std::ranges::any_of(members, [&](const Member& member) { return member.recording == found->second; });
    };
    return std::ranges::all_of(first.members, is_there);
  }

  bool have_equal_sizes(const std::vector<Member>& members) const {
    const std::int64_t a = of(members.front()).bytes, b = of(members.back()).bytes;
    return is_collective(of(members.front())) || a == 0 || b == 0 || a == b;
  }

  void meet(std::vector<Member> members) {
    const bool complete = is_complete(members);
    const bool equal = !complete || have_equal_sizes(members);
    if (!complete || !equal) {
      for (const Member& member : members) {
        count_without_counterpart(member);
        if (!equal) ++result_.unequal[as_index(member.recording)];
      }
      return;
    }
    if (of(members.front()).kind == Communication::Kind::receive) std::swap(members.front(), members.back());
    const Communication& first = of(members.front());
    result_.all.push_back({first.kind, members, is_collective(first) && (!first.described || is_symmetric(first.operation))});
  }

  const std::vector<RankRecording>& recordings_;
  std::map<int, int> index_of_rank_;
  std::set<int> common_steps_;
  std::map<Key, std::vector<Member>> met_;
  Meetings result_;
};

}  // namespace

Meetings find_meetings(const std::vector<RankRecording>& recordings) {
  return Matcher(recordings).match();
}

}  // namespace mptune::profiler

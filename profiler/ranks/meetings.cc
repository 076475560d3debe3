#include "profiler/ranks/meetings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
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

/// What equal communications of different recordings have in common, but for their number.
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
    for (auto* counts : {&result_.unmatched, &result_.alone, &result_.unequal}) counts->assign(recordings.size(), 0);
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

  Topic topic_of(const Communication& one, int rank) const {
    if (is_collective(one)) return {.group = one.group, .operation = one.operation};
    const bool sends = one.kind == Communication::Kind::send;
    return {.group = one.group, .operation = "", .source = sends ? rank : one.peer, .destination = sends ? one.peer : rank};
  }

  void collect(int recording) {
    const RankRecording& of_rank = recordings_[as_index(recording)];
    std::map<std::tuple<Topic, std::int64_t, int>, std::int64_t> places;
    for (int c = 0; c < static_cast<int>(of_rank.communications.size()); ++c) {
      const Communication& one = of_rank.communications[as_index(c)];
      if (!is_collective(one) && one.peer < 0) {
        ++result_.unmatched[as_index(recording)];
        continue;
      }
      const Topic topic = topic_of(one, of_rank.rank);
      const int step = one.sequence >= 0 ? -1 : one.step;
      const std::int64_t place = places[{topic, one.sequence, step}]++;
      met_[{topic, {one.sequence, step, place}}].push_back({recording, c});
    }
  }

  // Whether the recording of another process is there that should hold a counterpart.
  bool has_partner(const Member& member) const {
    const Communication& one = of(member);
    if (!is_collective(one)) return index_of_rank_.contains(one.peer);
    const int own = recordings_[as_index(member.recording)].rank;
    if (one.members.empty()) return recordings_.size() > 1;
    return std::ranges::any_of(one.members, [&](int rank) { return rank != own && index_of_rank_.contains(rank); });
  }

  // A recording of the group that holds no counterpart leaves the meeting incomplete: who arrived last is not known.
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
        ++(has_partner(member) ? result_.unmatched : result_.alone)[as_index(member.recording)];
        if (!equal) ++result_.unequal[as_index(member.recording)];
      }
      return;
    }
    if (of(members.front()).kind == Communication::Kind::receive) std::swap(members.front(), members.back());
    const Communication& first = of(members.front());
    result_.all.push_back({first.kind, members, is_collective(first) && is_symmetric(first.operation)});
  }

  const std::vector<RankRecording>& recordings_;
  std::map<int, int> index_of_rank_;
  std::map<Key, std::vector<Member>> met_;
  Meetings result_;
};

}  // namespace

Meetings find_meetings(const std::vector<RankRecording>& recordings) {
  return Matcher(recordings).match();
}

}  // namespace mptune::profiler

#include "profiler/ranks/merge_ranks.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/ranks/joined_edges.h"
#include "profiler/ranks/joined_trace.h"
#include "profiler/ranks/rank_tags.h"
#include "profiler/trace/kernel_names.h"
#include "profiler/trace/settle.h"

namespace mptune::profiler {
namespace {

constexpr std::string_view kMessages = "SendRecv";  // the kernel of sends and receives

// Gives ranks to recordings that do not say theirs. Returns which they are, by recording.
std::vector<bool> number_recordings(std::vector<RankRecording>& recordings) {
  std::map<int, const std::string*> file_of;
  for (const RankRecording& recording : recordings) {
    if (recording.rank < 0) continue;
    const auto [first, is_new] = file_of.try_emplace(recording.rank, &recording.file);
    if (!is_new)
      throw Error("it is of rank " + std::to_string(recording.rank) + ", as is " + *first->second, recording.file,
                  "give one file of every rank");
  }
  std::vector<bool> assumed(recordings.size(), false);
  int next = 0;
  for (std::size_t r = 0; r < recordings.size(); ++r) {
    if (recordings[r].rank >= 0) continue;
    while (file_of.contains(next)) ++next;
    recordings[r].rank = next;
    file_of[next] = &recordings[r].file;
    assumed[r] = true;
  }
  return assumed;
}

std::vector<int> missing_ranks(const std::vector<RankRecording>& recordings) {
  std::set<int> expected, given;
  for (const RankRecording& recording : recordings) {
    given.insert(recording.rank);
    for (int rank = 0; rank < recording.ranks; ++rank) expected.insert(rank);
    for (const Communication& one : recording.communications) {
      expected.insert(one.members.begin(), one.members.end());
      if (one.peer >= 0) expected.insert(one.peer);
    }
  }
  std::vector<int> missing;
  std::ranges::set_difference(expected, given, std::back_inserter(missing));
  return missing;
}

}  // namespace

MergedRanks merge_ranks(std::vector<RankRecording> recordings) {
  const std::vector<bool> assumed = number_recordings(recordings);
  MergedRanks merged;
  for (std::size_t r = 0; r < recordings.size(); ++r)
    merged.ranks.push_back({.rank = recordings[r].rank, .rank_assumed = assumed[r], .file = recordings[r].file});
  std::ranges::sort(recordings, {}, &RankRecording::rank);
  std::ranges::sort(merged.ranks, {}, &MergedRank::rank);
  for (RankRecording& recording : recordings)
    if (recording.communications.empty()) recording.communications = communications_of_kernels(recording.trace, recordings.size() == 2);
  const Meetings meetings = find_meetings(recordings);
  const std::vector<AlignedClock> clocks = align_clocks(recordings, meetings);
  for (std::size_t r = 0; r < recordings.size(); ++r) {
    MergedRank& rank = merged.ranks[r];
    rank.clock = clocks[r];
    rank.clock_offset = clocks[r].clock.offset;
    const std::int64_t own = recordings[r].trace.started_utc_ns, first = recordings[0].trace.started_utc_ns;
    if (own > 0 && first > 0) rank.clock_offset -= Nanoseconds{own - first};
    rank.communications = std::ssize(recordings[r].communications);
    rank.unmatched = meetings.unmatched[r];
    rank.unequal = meetings.unequal[r];
    rank.alone = meetings.alone[r];
    rank.outside = meetings.outside[r];
  }
  merged.missing = missing_ranks(recordings);
  JoinedTrace joined = join_traces(recordings, clocks);
  settle_steps(joined.trace);
  join_meetings(joined, recordings, meetings);
  settle_lanes(joined.trace);
  tag_ranks(joined.trace);
  for (const MergedRank& rank : merged.ranks) {
    joined.trace.quality.unmatched += rank.unmatched;
    joined.trace.quality.cut_off += rank.outside;
  }
  joined.trace.quality.untagged = std::ranges::count(joined.trace.events, -1, &Event::tag);
  merged.trace = std::move(joined.trace);
  return merged;
}

std::vector<Communication> communications_of_kernels(const Trace& trace, bool two_ranks) {
  std::vector<Communication> all;
  for (int i = 0; i < static_cast<int>(trace.events.size()); ++i) {
    const Event& event = trace.events[as_index(i)];
    std::string_view name = trace.names[as_index(event.name)];
    if (event.kind != EventKind::collective || !is_nccl_kernel(name)) continue;
    name.remove_prefix(std::min(name.find('_'), name.size() - 1) + 1);
    const std::string operation(name.substr(0, name.find_first_of("_(<")));
    if (operation.empty() || (operation == kMessages && !two_ranks)) continue;
    all.push_back({.operation = operation, .group = "", .members = {}, .step = step_at(trace.steps, event.start), .event = i});
  }
  return all;
}

}  // namespace mptune::profiler

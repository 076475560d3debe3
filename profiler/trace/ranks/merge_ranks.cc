#include "profiler/trace/ranks/merge_ranks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/ranks/common_window.h"
#include "profiler/trace/ranks/communicators.h"
#include "profiler/trace/ranks/joined_edges.h"
#include "profiler/trace/ranks/joined_trace.h"
#include "profiler/trace/ranks/rank_tags.h"
#include "profiler/trace/ranks/unmatched_time.h"
#include "profiler/trace/values/settle.h"

namespace mptune::profiler {
namespace {

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

// If there are two ranks, the partner of a message is the other one.
void find_partners(std::vector<RankRecording>& recordings) {
  if (recordings.size() != 2) return;
  for (std::size_t r = 0; r < 2; ++r) {
    if (recordings[r].ranks > 2) return;
    for (Communication& one : recordings[r].communications)
      if (one.kind != Communication::Kind::collective && one.peer < 0 && one.members.empty()) one.peer = recordings[1 - r].rank;
  }
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

// Returns the time in collectives with members that have no recording, after the last arrival that is known.
Nanoseconds time_with_missing(const JoinedTrace& joined, const std::vector<RankRecording>& recordings, const Meetings& meetings,
                              const std::vector<int>& missing) {
  Nanoseconds sum{0};
  for (const Meeting& meeting : meetings.all) {
    std::vector<const Event*> events;
    bool lacks = false;
    Nanoseconds arrival = Nanoseconds::min();
    for (const Member& member : meeting.members) {
      const Communication& one = recordings[as_index(member.recording)].communications[as_index(member.communication)];
      events.push_back(&joined.trace.events[as_index(joined.event(member.recording, one.event))]);
      arrival = std::max(arrival, events.back()->start);
      lacks = lacks || std::ranges::any_of(one.members, [&](int rank) { return std::ranges::binary_search(missing, rank); });
    }
    for (const Event* event : events)
      if (lacks && meeting.kind == Communication::Kind::collective) sum += std::max(Nanoseconds{0}, event->end() - arrival);
  }
  return sum;
}

// Limits the trace to what all recordings hold, if they have no steps and cover different times.
void take_common_window(MergedRanks& merged, JoinedTrace& joined, const std::optional<CommonWindow>& window) {
  if (!window) return;
  merged.common_window = window->end - window->start;
  joined.trace.steps = {{0, window->start - joined.started, window->end - joined.started}};
  for (std::size_t r = 0; r < merged.ranks.size(); ++r) {
    merged.ranks[r].unmatched -= window->outside[r];
    merged.ranks[r].outside += window->outside[r];
  }
}

}  // namespace

MergedRanks merge_ranks(std::vector<RankRecording> recordings) {
  const std::vector<bool> assumed = number_recordings(recordings);
  MergedRanks merged;
  for (std::size_t r = 0; r < recordings.size(); ++r)
    merged.ranks.push_back({.rank = recordings[r].rank, .rank_assumed = assumed[r], .file = recordings[r].file});
  std::ranges::sort(recordings, {}, &RankRecording::rank);
  std::ranges::sort(merged.ranks, {}, &MergedRank::rank);
  find_partners(recordings);
  add_undescribed(recordings);
  find_communicators(recordings);
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
  take_common_window(merged, joined, common_window(recordings, clocks, meetings));
  settle_steps(joined.trace);
  merged.with_missing = time_with_missing(joined, recordings, meetings, merged.missing);
  const Nanoseconds unmatched = unmatched_time(joined, recordings, meetings);
  join_meetings(joined, recordings, meetings);
  settle_lanes(joined.trace);
  tag_ranks(joined.trace);
  for (const MergedRank& rank : merged.ranks) {
    joined.trace.quality.unmatched += rank.unmatched;
    joined.trace.quality.cut_off += rank.outside;
  }
  joined.trace.quality.unmatched_ns += unmatched.count();
  joined.trace.quality.untagged = std::ranges::count(joined.trace.events, -1, &Event::tag);
  merged.trace = std::move(joined.trace);
  return merged;
}

}  // namespace mptune::profiler

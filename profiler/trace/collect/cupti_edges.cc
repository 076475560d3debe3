#include "profiler/trace/collect/cupti_edges.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

using Stream = std::pair<std::uint32_t, std::uint32_t>;

// The latest work of each stream, as number of works so far; waiting for it includes all earlier work of the stream.
using Latest = std::map<Stream, std::size_t>;

struct StreamState {
  std::vector<int> works;
  Latest waiting;  // work that the next work on this stream waits for
};

// Far above any error of converted GPU times.
constexpr Nanoseconds kMostClockError{50'000};

struct Use {
  std::uint32_t correlation = 0;
  const CuptiEventUse* use = nullptr;
  bool is_record = false;
};

std::vector<Use> uses_of(const CuptiRecords& records) {
  std::vector<Use> uses;
  for (const CuptiEventUse& use : records.event_records) uses.push_back({use.correlation, &use, true});
  for (const CuptiEventUse& use : records.stream_waits) uses.push_back({use.correlation, &use, false});
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.correlation < b.correlation; });
  return uses;
}

// Visits all calls in order and tracks the last work of each stream.
class Walk {
 public:
  explicit Walk(Trace& trace) : trace_(trace) {}

  void work(const CuptiSubmission& submission) {
    StreamState& stream = streams_[submission.stream];
    const Event& event = event_at(submission.event);
    // Nodes of a CUDA graph are on one stream but may run concurrently.
    if (!stream.works.empty() && event_at(stream.works.back()).end() <= event.start)
      trace_.edges.push_back({stream.works.back(), submission.event, EdgeKind::order});
    for (const auto& [elsewhere, works] : stream.waiting)
      if (elsewhere != submission.stream) add_wait(streams_[elsewhere].works, works, submission.event);
    stream.waiting.clear();
    stream.works.push_back(submission.event);
  }

  void use(const Use& use) {
    const Stream name{use.use->context, use.use->stream};
    StreamState& stream = streams_[name];
    Latest& recorded = recorded_[use.use->sync_id];
    if (use.is_record) {
      recorded = stream.waiting;
      if (!stream.works.empty()) recorded[name] = stream.works.size();
    } else {
      for (const auto& [elsewhere, works] : recorded) {
        std::size_t& latest = stream.waiting.try_emplace(elsewhere, works).first->second;
        latest = std::max(latest, works);
      }
    }
  }

 private:
  const Event& event_at(int index) const { return trace_.events[as_index(index)]; }

  // Calls are numbered as they begin. If several threads use a stream, work may come to it after an event's record with a higher number:
  // work that still ran when the waiting work began was not waited for.
  void add_wait(const std::vector<int>& works, std::size_t count, int waiting) {
    const Nanoseconds latest_end = event_at(waiting).start + kMostClockError;
    while (count > 0 && event_at(works[count - 1]).end() > latest_end) --count;
    if (count > 0) trace_.edges.push_back({works[count - 1], waiting, EdgeKind::event_wait});
  }

  Trace& trace_;
  std::map<Stream, StreamState> streams_;
  std::unordered_map<std::uint64_t, Latest> recorded_;  // by sync id
};

}  // namespace

void add_stream_edges(const CuptiRecords& records, std::vector<CuptiSubmission> submissions, Trace& trace) {
  std::stable_sort(submissions.begin(), submissions.end(),
                   [](const CuptiSubmission& a, const CuptiSubmission& b) { return a.correlation < b.correlation; });
  const std::vector<Use> uses = uses_of(records);
  Walk walk(trace);
  auto next = uses.begin();
  for (const CuptiSubmission& submission : submissions) {
    for (; next != uses.end() && next->correlation < submission.correlation; ++next) walk.use(*next);
    walk.work(submission);
  }
}

}  // namespace mptune::profiler

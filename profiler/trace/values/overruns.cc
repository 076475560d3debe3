#include "profiler/trace/values/overruns.h"

#include <algorithm>
#include <tuple>

namespace mptune::profiler {
namespace {

// Returns the records with a stream and a length, by stream and start; of records with the same start, the longest comes first.
std::vector<std::size_t> by_stream(const std::vector<TimedRecord>& records) {
  std::vector<std::size_t> ordered;
  for (std::size_t i = 0; i < records.size(); ++i)
    if (records[i].stream >= 0 && records[i].start < records[i].end) ordered.push_back(i);
  const auto key = [&](std::size_t i) { return std::tuple(records[i].stream, records[i].start, -records[i].end, i); };
  std::sort(ordered.begin(), ordered.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return ordered;
}

bool is_of_one_call(const TimedRecord& a, const TimedRecord& b) {
  return a.call > 0 && a.call == b.call;
}

}  // namespace

std::vector<Overrun> overruns(const std::vector<TimedRecord>& records) {
  const std::vector<std::size_t> ordered = by_stream(records);
  std::vector<std::size_t> next(ordered.size(), ordered.size());  // place of the next record of another call
  for (std::size_t i = ordered.size(); i-- > 1;) next[i - 1] = is_of_one_call(records[ordered[i - 1]], records[ordered[i]]) ? next[i] : i;
  std::vector<Overrun> found;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (next[i] == ordered.size()) continue;
    const TimedRecord& record = records[ordered[i]];
    const TimedRecord& other = records[ordered[next[i]]];
    if (other.stream == record.stream && record.end > other.start + kStampTolerance)
      found.push_back({ordered[i], ordered[next[i]], record.end > other.end + kStampTolerance});
  }
  std::sort(found.begin(), found.end(), [](const Overrun& a, const Overrun& b) { return a.record < b.record; });
  return found;
}

bool is_wrong(const Overrun& overrun, std::string_view call) {
  if (call.find("GraphLaunch") != std::string_view::npos) return false;
  const bool may_begin_early = call.empty() || call.find("LaunchKernelEx") != std::string_view::npos;
  return !may_begin_early || overrun.encloses;
}

}  // namespace mptune::profiler

#include "profiler/trace/values/plausible_times.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace mptune::profiler {
namespace {

using Fault = ImplausibleTime::Fault;

Nanoseconds length(TimeInterval interval) {
  return interval.end - interval.start;
}

// Compares without a product that could overflow.
bool is_less_than_half(Nanoseconds part, Nanoseconds whole) {
  return part < whole - part;
}

TimeInterval hull(TimeInterval a, TimeInterval b) {
  return {std::min(a.start, b.start), std::max(a.end, b.end)};
}

class Judge {
 public:
  Judge(const std::vector<TimedRecord>& records, Nanoseconds rounding, const std::function<TimeInterval()>& others)
      : records_(records), rounding_(rounding), others_(others) {
    left_.reserve(records.size());
    for (std::size_t i = 0; i < records.size(); ++i) left_.push_back(i);
  }

  TimeFaults faults(const std::vector<StepWindow>& steps) {
    remove_far();
    remove_alone();
    remove_too_long(windows_of(steps));
    std::sort(faults_.begin(), faults_.end());
    return std::move(faults_);
  }

 private:
  // The outermost record at one end of the recording, and the time that the next one reaches.
  struct Outermost {
    std::size_t record = 0;
    Nanoseconds next{0};
  };

  void remove_if(Fault fault, const std::function<bool(std::size_t)>& is_wrong) {
    std::vector<std::size_t> kept;
    for (const std::size_t i : left_) {
      if (is_wrong(i))
        faults_.emplace_back(i, fault);
      else
        kept.push_back(i);
    }
    left_ = std::move(kept);
  }

  void remove_far() {
    if (records_.size() < 3) return;  // if there are two, either may be wrong
    const Nanoseconds middle = middle_start(records_);
    remove_if(Fault::far, [&](std::size_t i) { return !is_near(middle, records_[i].start, records_[i].end); });
  }

  // Each removal halves the recording, so there are fewer than 64.
  void remove_alone() {
    while (left_.size() > kLeastOthers) {
      const std::optional<std::size_t> alone = find_alone();
      if (!alone) return;
      remove_if(Fault::alone, [&](std::size_t i) { return i == *alone; });
    }
  }

  [[nodiscard]] std::optional<std::size_t> find_alone() {
    const Outermost first = outermost([](const TimedRecord& record) { return record.start; });
    const Outermost last = outermost([](const TimedRecord& record) { return -record.end; });
    const Nanoseconds start = records_[first.record].start;
    const Nanoseconds end = records_[last.record].end;
    const bool both = first.record == last.record;
    if (is_alone(first.record, {start, end}, {first.next, both ? -last.next : end})) return first.record;
    if (is_alone(last.record, {start, end}, {both ? first.next : start, -last.next})) return last.record;
    return std::nullopt;
  }

  template <class Time>
  [[nodiscard]] Outermost outermost(Time time) const {
    std::size_t best = left_[0];
    std::size_t second = left_[1];
    if (time(records_[second]) < time(records_[best])) std::swap(best, second);
    for (std::size_t k = 2; k < left_.size(); ++k) {
      const Nanoseconds here = time(records_[left_[k]]);
      if (here < time(records_[best]))
        second = std::exchange(best, left_[k]);
      else if (here < time(records_[second]))
        second = left_[k];
    }
    return {best, time(records_[second])};
  }

  [[nodiscard]] bool is_alone(std::size_t record, TimeInterval whole, TimeInterval rest) {
    if (records_[record].stream < 0 || !is_less_than_half(length(rest), length(whole))) return false;
    if (!seen_) seen_ = others_();
    if (length(*seen_) > Nanoseconds{0}) rest = hull(rest, *seen_);
    return is_less_than_half(length(rest), length(hull(rest, whole)));
  }

  [[nodiscard]] std::vector<TimeInterval> windows_of(const std::vector<StepWindow>& steps) const {
    std::vector<TimeInterval> windows;
    for (std::size_t s = 0; s < steps.size(); ++s)
      windows.push_back({steps[s].start, s + 1 < steps.size() ? steps[s + 1].start : steps[s].end});
    if (!windows.empty() || left_.empty()) return windows;
    TimeInterval all{records_[left_[0]].start, records_[left_[0]].end};
    for (const std::size_t i : left_) all = hull(all, {records_[i].start, records_[i].end});
    return {all};
  }

  [[nodiscard]] bool fills_a_window(const TimedRecord& record, const std::vector<TimeInterval>& windows) const {
    auto window = std::partition_point(windows.begin(), windows.end(), [&](const TimeInterval& w) { return w.end <= record.start; });
    for (; window != windows.end() && window->start < record.end; ++window)
      if (is_less_than_half(length(*window) - length(clip({record.start, record.end}, *window)), length(*window))) return true;
    return false;
  }

  void remove_too_long(const std::vector<TimeInterval>& windows) {
    std::vector<std::size_t> longest;
    for (const std::size_t i : left_)
      if (records_[i].stream >= 0 && fills_a_window(records_[i], windows)) longest.push_back(i);
    if (longest.empty()) return;
    std::vector<std::size_t> ordered = left_;
    const auto key = [&](std::size_t i) { return std::tuple(records_[i].stream, records_[i].start, -records_[i].end, i); };
    std::sort(ordered.begin(), ordered.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    std::erase_if(longest, [&](std::size_t i) {
      const auto place = std::partition_point(ordered.begin(), ordered.end(), [&](std::size_t other) { return key(other) < key(i); });
      return !encloses_work(records_[i], place + 1, ordered.end());
    });
    remove_if(Fault::too_long, [&](std::size_t i) { return std::binary_search(longest.begin(), longest.end(), i); });
  }

  // `next` and the following: by stream and start.
  template <class Iterator>
  [[nodiscard]] bool encloses_work(const TimedRecord& record, Iterator next, Iterator end) const {
    for (; next != end; ++next) {
      const TimedRecord& other = records_[*next];
      if (other.stream != record.stream || other.start >= record.end) return false;
      const bool one_call = record.call > 0 && other.call == record.call;
      if (!one_call && other.end > other.start && other.end + rounding_ < record.end) return true;
    }
    return false;
  }

  const std::vector<TimedRecord>& records_;
  const Nanoseconds rounding_;
  const std::function<TimeInterval()>& others_;
  std::optional<TimeInterval> seen_;
  std::vector<std::size_t> left_;  // ordered
  TimeFaults faults_;
};

}  // namespace

void note_implausible(Trace& trace, ImplausibleTime record) {
  if (record.fault != Fault::overrun) ++trace.quality.dropped;
  if (trace.implausible.size() < kMostImplausible) trace.implausible.push_back(std::move(record));
}

Nanoseconds middle_start(const std::vector<TimedRecord>& records) {
  if (records.empty()) return Nanoseconds{0};
  std::vector<Nanoseconds> starts;
  starts.reserve(records.size());
  for (const TimedRecord& record : records) starts.push_back(record.start);
  const auto middle = starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2);
  std::nth_element(starts.begin(), middle, starts.end());
  return *middle;
}

bool is_near(Nanoseconds middle, Nanoseconds start, Nanoseconds end) {
  return start >= middle - kLongestRecording && end <= middle + kLongestRecording;
}

TimeFaults implausible_times(const std::vector<TimedRecord>& records, const std::vector<StepWindow>& steps, Nanoseconds rounding,
                             const std::function<TimeInterval()>& others) {
  return Judge(records, rounding, others).faults(steps);
}

}  // namespace mptune::profiler

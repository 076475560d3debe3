#include "tuner/trial/series_rounds.h"

#include <algorithm>

#include "profiler/base/index.h"
#include "profiler/trace/statistics/verdict.h"

namespace mptune::tuner {

SeriesRounds::SeriesRounds(const Series& series) : series_(series), samples_(series.entries.size()), left_(series.entries.size(), false) {}

bool SeriesRounds::takes_part(int entry) const {
  return !left_.at(as_index(entry));
}

void SeriesRounds::add(int entry, const Sample& sample) {
  samples_.at(as_index(entry)).values.push_back(sample);
}

void SeriesRounds::leave(int entry) {
  left_.at(as_index(entry)) = true;
}

std::vector<int> SeriesRounds::end_round(double now_s, double round_s, int disturbed) {
  rounds_s_.push_back(round_s);
  std::vector<int> leaving;
  const auto let_go = [&](int entry) {
    leave(entry);
    leaving.push_back(entry);
  };
  if (series_.least_rounds == 0 || entries().empty()) return leaving;
  const auto rounds = static_cast<int>(rounds_s_.size());
  if (rounds - disturbed >= series_.least_rounds) {
    const int fastest = std::ranges::min(entries(), {}, [this](int entry) { return median(samples_[as_index(entry)]); });
    for (const int entry : entries())
      if (is_settled(entry, fastest)) let_go(entry);
  }
  const auto lacks_time = [&] { return now_s + (kLeastPairs - rounds) * longest_round_s() > series_.budget_s; };
  while (rounds < kLeastPairs && entries().size() > 2 && lacks_time())
    let_go(std::ranges::min(entries(), {}, [this](int entry) { return series_.entries[as_index(entry)].importance; }));
  return leaving;
}

bool SeriesRounds::next_fits(double now_s, int disturbed) const {
  const auto rounds = static_cast<int>(rounds_s_.size());
  const std::size_t left = entries().size();
  const bool settled = series_.least_rounds > 0 && rounds - disturbed >= series_.least_rounds && series_.entries.size() > 1 && left == 1;
  return left > 0 && !settled && round_fits(series_, rounds, now_s, longest_round_s(), disturbed);
}

std::vector<int> SeriesRounds::entries() const {
  std::vector<int> entries;
  for (int entry = 0; entry < static_cast<int>(left_.size()); ++entry)
    if (takes_part(entry)) entries.push_back(entry);
  return entries;
}

bool SeriesRounds::is_settled(int entry, int fastest) const {
  if (entry == fastest) return false;
  const Samples &slow = samples_[as_index(entry)], &fast = samples_[as_index(fastest)];
  const Speedup behind = paired_speedup(slow, fast);
  return behind.pairs >= kLeastPairs && range_of(slow).low > range_of(fast).high && behind.range->low > 1 + kAtStake;
}

double SeriesRounds::longest_round_s() const {
  std::vector<double> rounds_s = rounds_s_;
  for (std::size_t entry = 0; entry < samples_.size(); ++entry) {
    if (!left_[entry]) continue;
    for (const Sample& sample : samples_[entry].values)
      if (as_index(sample.round) < rounds_s.size()) rounds_s[as_index(sample.round)] -= sample.value;
  }
  return rounds_s.empty() ? 0 : std::ranges::max(rounds_s);
}

}  // namespace mptune::tuner

#include "profiler/statistics/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <stdexcept>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

constexpr int kLeastSamples = 5;  // of a side
constexpr int kLeastPairs = 6;    // with fewer, the range of all pairs covers less than 95 %
constexpr double kSameBand = 0.02;
constexpr std::array kVerdicts{Verdict::fast, Verdict::slow, Verdict::same, Verdict::ambiguous, Verdict::unknown};

struct Round {
  std::vector<double> baseline;
  std::vector<double> candidate;
};

// A round that holds a side twice (ABBA) gives one pair of medians: linear drift within the round cancels.
std::vector<double> paired_ratios(const Samples& baseline, const Samples& candidate) {
  std::map<int, Round> rounds;
  for (const Sample& sample : baseline.values) rounds[sample.round].baseline.push_back(sample.value);
  for (const Sample& sample : candidate.values) rounds[sample.round].candidate.push_back(sample.value);
  std::vector<double> ratios;
  for (const auto& [number, round] : rounds) {
    if (round.baseline.empty() || round.candidate.empty()) continue;
    const double ratio = median(round.baseline) / median(round.candidate);
    if (std::isfinite(ratio) && ratio > 0) ratios.push_back(ratio);
  }
  return ratios;
}

enum class Place { below, above, within, across };

/// Where an interval lies relative to 1.
Place place_of(const Interval& ci95) {
  if (ci95.low >= 1 - kSameBand && ci95.high <= 1 + kSameBand) return Place::within;
  if (ci95.low > 1) return Place::above;
  return ci95.high < 1 ? Place::below : Place::across;
}

/// `above` is the verdict for an interval above 1, `below` for one below.
Verdict judge(Place place, Verdict above, Verdict below) {
  switch (place) {
    case Place::above:
      return above;
    case Place::below:
      return below;
    case Place::within:
      return Verdict::same;
    case Place::across:
      return Verdict::ambiguous;
  }
  return Verdict::unknown;
}

std::string explain(const Interval& interval, const std::string& samples, double percent = 95) {
  static constexpr std::array kMeanings{"lies below 1", "lies above 1", "lies within 2 % of 1", "contains 1 but reaches beyond 2 % of it"};
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "the %.4g %% interval %.3f to %.3f of %s %s", percent, interval.low, interval.high,
                samples.c_str(), kMeanings.at(as_index(place_of(interval))));
  return text.data();
}

struct Mean {
  double value = 0;
  double variance = 0;  // of the mean
  double freedom = 0;
};

Mean mean_of(const std::vector<double>& values) {
  if (values.size() < 2) throw std::invalid_argument("the interval of a mean needs at least two values");
  const auto count = static_cast<double>(values.size());
  Mean mean;
  mean.freedom = count - 1;
  for (const double value : values) mean.value += value / count;
  for (const double value : values) mean.variance += (value - mean.value) * (value - mean.value) / (count - 1) / count;
  return mean;
}

// 97.5 % quantile of Student's t: exact for one and two degrees of freedom, else the expansion around the normal quantile (error below 1
// %).
double student975(double freedom) {
  if (freedom < 3) return freedom < 2 ? 12.706 : 4.303;
  const double z = 1.959964;
  const double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * freedom * freedom * freedom);
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::fast:
      return "FAST";
    case Verdict::slow:
      return "SLOW";
    case Verdict::same:
      return "SAME";
    case Verdict::ambiguous:
      return "AMBIGUOUS";
    case Verdict::unknown:
      return "UNKNOWN";
  }
  return "UNKNOWN";
}

Verdict verdict_from(const std::string& text) {
  for (const Verdict verdict : kVerdicts)
    if (text == to_string(verdict)) return verdict;
  throw Error("unknown verdict", "'" + text + "'", "use FAST, SLOW, SAME, AMBIGUOUS or UNKNOWN");
}

Speedup paired_speedup(const Samples& baseline, const Samples& candidate, double confidence) {
  const std::vector<double> ratios = paired_ratios(baseline, candidate);
  Speedup speedup;
  speedup.pairs = static_cast<int>(ratios.size());
  if (!ratios.empty()) {
    speedup.estimate = median(ratios);
    speedup.ci95 = interval95(ratios);
  }
  if (speedup.pairs < kLeastPairs) {
    speedup.reason = "only " + std::to_string(speedup.pairs) + " pairs; at least " + std::to_string(kLeastPairs) + " are needed";
    return speedup;
  }
  const Interval judged = median_interval(ratios, confidence);
  speedup.verdict = judge(place_of(judged), Verdict::fast, Verdict::slow);
  speedup.reason = explain(judged, std::to_string(speedup.pairs) + " pairs", 100 * confidence);
  return speedup;
}

MedianEstimate estimate(const Samples& samples) {
  return {.median = median(samples), .ci95 = interval95(samples), .samples = static_cast<int>(samples.size())};
}

TimeRatio unpaired_ratio(const MedianEstimate& a, const MedianEstimate& b) {
  for (const MedianEstimate& side : {a, b})
    if (!(side.ci95.low > 0 && side.ci95.low <= side.median && side.median <= side.ci95.high && std::isfinite(side.ci95.high)))
      throw std::invalid_argument("a ratio of times needs positive times");
  const auto distance = [](double from, double to) { return std::log(to / from); };
  TimeRatio ratio;
  ratio.estimate = b.median / a.median;
  ratio.ci95 = {ratio.estimate * std::exp(-std::hypot(distance(b.ci95.low, b.median), distance(a.median, a.ci95.high))),
                ratio.estimate * std::exp(std::hypot(distance(b.median, b.ci95.high), distance(a.ci95.low, a.median)))};
  if (const int fewest = std::min(a.samples, b.samples); fewest < kLeastSamples) {
    ratio.reason = std::string(a.samples <= b.samples ? "A" : "B") + " has only " + std::to_string(fewest) + " of the " +
                   std::to_string(kLeastSamples) + " samples that are needed";
    return ratio;
  }
  ratio.verdict = judge(place_of(ratio.ci95), Verdict::slow, Verdict::fast);
  ratio.reason = explain(ratio.ci95, std::to_string(a.samples) + " and " + std::to_string(b.samples) + " samples");
  return ratio;
}

Interval mean_difference95(const std::vector<double>& a, const std::vector<double>& b) {
  const Mean of_a = mean_of(a), of_b = mean_of(b);
  const double difference = of_b.value - of_a.value, variance = of_a.variance + of_b.variance;
  if (variance == 0) return {difference, difference};
  const double freedom =
      variance * variance / (of_a.variance * of_a.variance / of_a.freedom + of_b.variance * of_b.variance / of_b.freedom);
  const double reach = student975(freedom) * std::sqrt(variance);
  return {difference - reach, difference + reach};
}

}  // namespace mptune

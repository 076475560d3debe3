#include "profiler/trace/statistics/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <stdexcept>

#include "profiler/base/error.h"

namespace mptune {
namespace {

constexpr std::array kVerdicts{Verdict::fast, Verdict::slow, Verdict::same, Verdict::ambiguous, Verdict::unknown};

struct Round {
  std::vector<double> baseline;
  std::vector<double> candidate;
};

/// The times of the rounds that have both sides.
struct Pairs {
  std::vector<double> baseline;
  std::vector<double> candidate;
  std::vector<double> ratios;
};

// A round that holds a side twice (ABBA) gives one pair of medians: linear drift within the round cancels.
Pairs pairs_of(const Samples& baseline, const Samples& candidate) {
  std::map<int, Round> rounds;
  for (const Sample& sample : baseline.values) rounds[sample.round].baseline.push_back(sample.value);
  for (const Sample& sample : candidate.values) rounds[sample.round].candidate.push_back(sample.value);
  Pairs pairs;
  for (const auto& [number, round] : rounds) {
    if (round.baseline.empty() || round.candidate.empty()) continue;
    const double before = median(round.baseline), after = median(round.candidate);
    if (!std::isfinite(before / after) || before / after <= 0) continue;
    pairs.baseline.push_back(before);
    pairs.candidate.push_back(after);
    pairs.ratios.push_back(before / after);
  }
  return pairs;
}

enum class Place { below, above, within, across };

/// Returns where an interval lies relative to 1.
Place place_of(const Interval& ci95, double band) {
  if (ci95.low >= 1 - band && ci95.high <= 1 + band) return Place::within;
  if (ci95.low > 1) return Place::above;
  return ci95.high < 1 ? Place::below : Place::across;
}

std::string explain(const Interval& interval, const std::string& samples, const std::string& place) {
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "the 95 %% interval %.3f to %.3f of ", interval.low, interval.high);
  return text.data() + samples + " " + place;
}

std::string in_percent(double band) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g %%", 100 * band);
  return text.data();
}

std::string words_of(Place place, double band) {
  switch (place) {
    case Place::above:
      return "lies above 1";
    case Place::below:
      return "lies below 1";
    case Place::within:
      return "lies within " + in_percent(band) + " of 1";
    case Place::across:
      return "contains 1 but reaches beyond " + in_percent(band) + " of it";
  }
  return "";
}

Verdict verdict_of_speedup(Place place) {
  switch (place) {
    case Place::above:
      return Verdict::fast;
    case Place::below:
      return Verdict::slow;
    case Place::within:
      return Verdict::same;
    case Place::across:
      return Verdict::ambiguous;
  }
  return Verdict::unknown;
}

bool is_decided(Verdict verdict) {
  return verdict == Verdict::fast || verdict == Verdict::slow;
}

/// Sets the verdict of a speed-up whose interval is known.
void judge_by_interval(Speedup& speedup) {
  const Place place = place_of(*speedup.ci95, kSameBand);
  speedup.verdict = verdict_of_speedup(place);
  speedup.reason = explain(*speedup.ci95, std::to_string(speedup.pairs) + " pairs", words_of(place, kSameBand));
  if (is_decided(speedup.verdict)) speedup.error_rate = 0.05;
}

/// Sets the verdict of a speed-up from too few pairs for an interval.
void judge_by_order(Speedup& speedup, const Pairs& pairs) {
  const std::string count = std::to_string(speedup.pairs) + (speedup.pairs == 1 ? " pair" : " pairs");
  if (speedup.pairs < kLeastPairs) {
    speedup.reason = "only " + count + "; at least " + std::to_string(kLeastPairs) + " are needed";
    return;
  }
  const Interval before = range_of(pairs.baseline), after = range_of(pairs.candidate);
  const bool above = before.low > after.high, below = before.high < after.low;
  if (!above && !below) {
    speedup.reason = "times of only " + count + " overlap; an interval needs " + std::to_string(kLeastForInterval);
  } else if (place_of(*speedup.range, kSameBand) == Place::within) {
    speedup.reason =
        "only " + count + ", all within " + in_percent(kSameBand) + " of 1; an interval needs " + std::to_string(kLeastForInterval);
  } else {
    speedup.verdict = above ? Verdict::fast : Verdict::slow;
    speedup.error_rate = chance_of_apart(speedup.pairs);
    std::array<char, 160> text{};
    std::snprintf(text.data(), text.size(), "%s of %.3f to %.3f, no times of the two overlap; so it is with equal plans in %.2g %%",
                  count.c_str(), speedup.range->low, speedup.range->high, 100 * *speedup.error_rate);
    speedup.reason = text.data();
  }
}

/// Sets verdict and reason of a ratio by its interval.
void judge(TimeRatio& ratio, const std::string& samples, double band) {
  const Place place = place_of(*ratio.ci95, band);
  ratio.reason = explain(*ratio.ci95, samples, words_of(place, band));
  if (place == Place::above && ratio.estimate < 1 + band) {
    ratio.verdict = Verdict::ambiguous;
    ratio.reason = explain(*ratio.ci95, samples, "lies above 1, but not the ratio beyond " + in_percent(band) + " of it");
  } else if (place == Place::above) {
    ratio.verdict = Verdict::slow;
  } else {
    ratio.verdict = place == Place::below ? Verdict::fast : place == Place::within ? Verdict::same : Verdict::ambiguous;
  }
}

void require_band(double band) {
  if (!(band >= 0)) throw std::invalid_argument("a band is not negative");
}

struct Spread {
  double count = 0;
  double mean = 0;
  double squares = 0;  // sum of squared distances from the mean
};

Spread spread_of(const std::vector<double>& values) {
  Spread spread{.count = static_cast<double>(values.size())};
  for (const double value : values) spread.mean += value / spread.count;
  for (const double value : values) spread.squares += (value - spread.mean) * (value - spread.mean);
  return spread;
}

struct Mean {
  double value = 0;
  double variance = 0;  // of the mean
  double freedom = 0;
};

Mean mean_of(const std::vector<double>& values) {
  if (values.size() < 2) throw std::invalid_argument("the interval of a mean needs at least two values");
  const Spread spread = spread_of(values);
  return {spread.mean, spread.squares / (spread.count - 1) / spread.count, spread.count - 1};
}

// Returns the 97.5 % quantile of Student's t: exact for one and two degrees of freedom, else the expansion around the normal quantile
// (error below 1 %).
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

// The times of round i have a distribution F_i. All of A lie above all of B with the chance E[prod (1 - F_i(b))], where b is B's largest
// time and has the distribution prod F_i. With g^n = prod F_i, prod (1 - F_i) <= (1 - g)^n, as log(1 - e^t) is concave. So the chance is at
// most the integral of (1 - g)^n d(g^n) from 0 to 1, which is 1 / C(2n, n); it is that where all F_i are equal.
double chance_of_apart(int pairs) {
  double orders = 1;  // C(2 pairs, pairs)
  for (int i = 1; i <= pairs; ++i) orders *= static_cast<double>(pairs + i) / i;
  return std::min(1.0, 2 / orders);
}

Speedup paired_speedup(const Samples& baseline, const Samples& candidate, double confidence) {
  const Pairs pairs = pairs_of(baseline, candidate);
  Speedup speedup;
  speedup.pairs = static_cast<int>(pairs.ratios.size());
  if (speedup.pairs > 0) {
    speedup.estimate = median(pairs.ratios);
    speedup.range = range_of(pairs.ratios);
  }
  speedup.ci95 = median_interval(pairs.ratios, confidence);
  if (speedup.ci95)
    judge_by_interval(speedup);
  else
    judge_by_order(speedup, pairs);
  return speedup;
}

MedianEstimate estimate(const Samples& samples) {
  return {.median = median(samples), .ci95 = interval95(samples), .samples = static_cast<int>(samples.size())};
}

TimeRatio unpaired_ratio(const MedianEstimate& a, const MedianEstimate& b, double band) {
  require_band(band);
  for (const MedianEstimate& side : {a, b}) {
    const Interval likely = side.ci95.value_or(Interval{side.median, side.median});
    if (!(likely.low > 0 && likely.low <= side.median && side.median <= likely.high && std::isfinite(likely.high)))
      throw std::invalid_argument("a ratio of times needs positive times");
  }
  TimeRatio ratio;
  ratio.estimate = b.median / a.median;
  if (!a.ci95 || !b.ci95) {
    const bool of_a = !a.ci95 && (b.ci95 || a.samples <= b.samples);
    ratio.reason = std::string(of_a ? "A" : "B") + " has only " + std::to_string(of_a ? a.samples : b.samples) + " of the " +
                   std::to_string(kLeastForInterval) + " samples that are needed";
    return ratio;
  }
  const auto distance = [](double from, double to) { return std::log(to / from); };
  const double below = std::hypot(distance(b.ci95->low, b.median), distance(a.median, a.ci95->high));
  const double above = std::hypot(distance(b.median, b.ci95->high), distance(a.ci95->low, a.median));
  ratio.ci95 = Interval{ratio.estimate * std::exp(-below), ratio.estimate * std::exp(above)};
  judge(ratio, std::to_string(a.samples) + " and " + std::to_string(b.samples) + " samples", band);
  return ratio;
}

TimeRatio ratio_of_recordings(const std::vector<double>& a, const std::vector<double>& b, double band) {
  require_band(band);
  const auto logarithms = [](const std::vector<double>& times) {
    std::vector<double> logs;
    for (const double time : times) {
      if (!(time > 0 && std::isfinite(time))) throw std::invalid_argument("a ratio of times needs positive times");
      logs.push_back(std::log(time));
    }
    return logs;
  };
  const std::vector<double> log_a = logarithms(a), log_b = logarithms(b);
  const Interval difference = pooled_difference95(log_a, log_b);
  TimeRatio ratio;
  ratio.estimate = std::exp(std::midpoint(difference.low, difference.high));
  ratio.ci95 = Interval{std::exp(difference.low), std::exp(difference.high)};
  judge(ratio, std::to_string(a.size()) + " and " + std::to_string(b.size()) + " recordings", band);
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

Interval pooled_difference95(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.empty() || b.empty() || a.size() + b.size() < 3)
    throw std::invalid_argument("a pooled interval needs three values, one on each side");
  const Spread of_a = spread_of(a), of_b = spread_of(b);
  const double freedom = of_a.count + of_b.count - 2;
  const double variance = (of_a.squares + of_b.squares) / freedom * (1 / of_a.count + 1 / of_b.count);
  const double difference = of_b.mean - of_a.mean, reach = student975(freedom) * std::sqrt(variance);
  return {difference - reach, difference + reach};
}

}  // namespace mptune

#include "mptune/profiler/statistics/verdict.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "mptune/profiler/trace/error.h"

namespace mptune {
namespace {

constexpr int kLeastPairs = 5;
constexpr double kSameBand = 0.02;
constexpr std::array kVerdicts{Verdict::fast, Verdict::slow, Verdict::same, Verdict::ambiguous, Verdict::unknown};

struct Round {
  std::vector<double> baseline;
  std::vector<double> candidate;
};

// A round that holds a side twice (ABBA) is one pair of medians: what drifts evenly through the round cancels.
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

Verdict judge(const Interval& ci95) {
  if (ci95.low >= 1 - kSameBand && ci95.high <= 1 + kSameBand) return Verdict::same;
  if (ci95.low > 1) return Verdict::fast;
  if (ci95.high < 1) return Verdict::slow;
  return Verdict::ambiguous;
}

const char* meaning(Verdict verdict) {
  switch (verdict) {
    case Verdict::fast:
      return "lies above 1";
    case Verdict::slow:
      return "lies below 1";
    case Verdict::same:
      return "lies within 2 % of 1";
    default:
      return "holds 1 and is wider than 2 %";
  }
}

std::string explain(const Speedup& speedup) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "the 95 %% interval %.3f to %.3f of %d pairs %s", speedup.ci95.low, speedup.ci95.high,
                speedup.pairs, meaning(speedup.verdict));
  return text.data();
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
  for (const Verdict verdict : kVerdicts) {
    if (text == to_string(verdict)) return verdict;
  }
  throw Error("unknown verdict", "'" + text + "'", "use FAST, SLOW, SAME, AMBIGUOUS or UNKNOWN");
}

Speedup paired_speedup(const Samples& baseline, const Samples& candidate) {
  const std::vector<double> ratios = paired_ratios(baseline, candidate);
  Speedup speedup;
  speedup.pairs = static_cast<int>(ratios.size());
  if (!ratios.empty()) {
    speedup.estimate = median(ratios);
    speedup.ci95 = interval95(ratios);
  }
  if (speedup.pairs < kLeastPairs) {
    speedup.reason = "only " + std::to_string(speedup.pairs) + " pairs, " + std::to_string(kLeastPairs) + " are needed";
    return speedup;
  }
  speedup.verdict = judge(speedup.ci95);
  speedup.reason = explain(speedup);
  return speedup;
}

}  // namespace mptune

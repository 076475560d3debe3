#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/index.h"
#include "tests/support/tuner_fakes.h"
#include "tuner/study/recommend/recommend.h"
#include "tuner/trial/series_rounds.h"

/// Experiments with plans whose true steps are equal (A/A): on a simulated machine that is noisy in the ways of real ones, how often does
/// the recommendation claim a winner, and how often do the intervals of its speed-ups hold the truth?
namespace mptune::tuner {
namespace {

constexpr int kExperiments = 1000;
constexpr int kMostFalseWinners = 50;  // 5 %
// Of speed-ups of the recommended plan, whose intervals have kConfidenceOfChoice.
constexpr double kLeastCoverage = 0.955;
constexpr double kMostCoverage = 0.99;

struct Noise {
  const char* name;
  double sigma = 0.01;         ///< of the logarithm of every step
  double drift_per_step = 0;   ///< the clock falls
  double spikes = 0;           ///< share of steps that take up to twice as long
  double slow_steps = 0;       ///< share of steps in the second mode,
  double slow_by = 0.15;       ///< which takes so much longer,
  double stays_in_mode = 0.0;  ///< and how likely a step is in the mode of the one before
};

const std::vector<Noise> kMachines{
    {.name = "quiet"},
    {.name = "loud", .sigma = 0.1},
    {.name = "drift", .drift_per_step = 0.0005},
    {.name = "spikes", .spikes = 0.1},
    {.name = "two modes", .slow_steps = 0.4},
    {.name = "two modes that last", .slow_steps = 0.4, .stays_in_mode = 0.9},
    {.name = "all at once", .sigma = 0.03, .drift_per_step = 0.0005, .spikes = 0.05, .slow_steps = 0.3, .stays_in_mode = 0.8},
};

class Machine {
 public:
  Machine(const Noise& noise, unsigned seed) : noise_(noise), random_(seed) {}

  double step_s(double truth_s) {
    const double clock = 1 + noise_.drift_per_step * steps_++;
    const double spike = uniform_(random_) < noise_.spikes ? 1 + uniform_(random_) : 1;
    if (uniform_(random_) >= noise_.stays_in_mode) slow_ = uniform_(random_) < noise_.slow_steps;
    return truth_s * std::exp(noise_.sigma * normal_(random_)) * clock * spike * (slow_ ? 1 + noise_.slow_by : 1);
  }

 private:
  Noise noise_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  int steps_ = 0;
  bool slow_ = false;
};

/// `count` plans of a final series: baselines and `candidates`, whose memory is equal, too.
std::vector<Trial> equal_plans(int count, int candidates) {
  std::vector<Trial> trials;
  for (int i = 0; i < count; ++i) {
    const Plan plan = testing::fake_plan(1 + i % 7, i < 7 ? 4 : 8);
    Trial& trial = trials.emplace_back();
    trial.name = i >= count - candidates ? "candidate" : "baseline " + std::to_string(i);
    trial.plan = plan;
    trial.plan_key = plan_key(plan);
    trial.prediction.emplace().step_s = 1 + 0.001 * i;
  }
  return trials;
}

/// One final series on the machine, which plans leave that are told from the fastest; a step of plan i truly takes `truth_s[i]`.
void measure(std::vector<Trial>& trials, Machine& machine, int rounds, const std::vector<double>& truth_s) {
  const int count = static_cast<int>(trials.size());
  for (Trial& trial : trials) trial.outcome = Measured{{}, {100, 100}, 1};
  const Series series{.entries = std::vector<Series::Entry>(trials.size()),
                      .rounds = rounds,
                      .least_rounds = std::min(rounds, 10),
                      .budget_s = std::numeric_limits<double>::infinity()};
  SeriesRounds part(series);
  for (int round = 0; part.next_fits(0); ++round) {
    for (int position = 0; position < count; ++position) {
      const int entry = entry_at(round, position, count);
      if (!part.takes_part(entry)) continue;
      const Sample sample{machine.step_s(truth_s[as_index(entry)]), round, position, 0};
      std::get<Measured>(trials[as_index(entry)].outcome).step_s.values.push_back(sample);
      part.add(entry, sample);
    }
    static_cast<void>(part.end_round(0, 0));
  }
}

struct Result {
  double false_winners = 0;  ///< of kExperiments
  double coverage = 0;       ///< share of speed-ups over baselines of other plans whose interval holds the truth
};

Result experiments(const Noise& noise, int rounds, const std::vector<double>& truth_s, int candidates = 1) {
  std::vector<Trial> trials = equal_plans(static_cast<int>(truth_s.size()), candidates);
  Machine machine(noise, static_cast<unsigned>(rounds));
  Result result;
  double held = 0, speedups = 0;
  for (int i = 0; i < kExperiments; ++i) {
    measure(trials, machine, rounds, truth_s);
    const auto recommendation = recommend(trials, 0);
    result.false_winners += recommendation->recommended.verdict == Verdict::fast ? 1 : 0;
    const auto truth_of = [&](const std::string& key) {
      return truth_s[as_index(std::ranges::find(trials, key, &Trial::plan_key) - trials.begin())];
    };
    for (const BaselineResult& baseline : recommendation->baselines) {
      if (baseline.trial.plan_key == recommendation->recommended.trial.plan_key) continue;
      const double truth = truth_of(baseline.trial.plan_key) / truth_of(recommendation->recommended.trial.plan_key);
      if (!baseline.speedup.ci95) continue;
      held += baseline.speedup.ci95->low <= truth && truth <= baseline.speedup.ci95->high ? 1 : 0;
      ++speedups;
    }
  }
  result.coverage = speedups > 0 ? held / speedups : 0;
  return result;
}

TEST(EqualPlans, AreRarelyCalledFaster) {
  for (const Noise& noise : kMachines) {
    for (const auto& [plans, candidates] : {std::pair{3, 1}, std::pair{9, 1}, std::pair{9, 5}}) {
      for (const int rounds : {4, 5, 6, 12, 40}) {
        const Result result = experiments(noise, rounds, std::vector<double>(as_index(plans), 1.0), candidates);
        std::printf("%-20s %d plans, %d candidates, %2d rounds: %4.1f %% false winners, %4.1f %% covered\n", noise.name, plans, candidates,
                    rounds, 100 * result.false_winners / kExperiments, 100 * result.coverage);
        EXPECT_LE(result.false_winners, kMostFalseWinners)
            << noise.name << ", " << plans << " plans, " << candidates << " candidates, " << rounds << " rounds";
      }
    }
  }
}

TEST(SpeedUpIntervals, HoldTheTruth) {
  for (const Noise& noise : kMachines) {
    for (const int rounds : {6, 7, 10, 12, 25, 40}) {
      const Result result = experiments(noise, rounds, {2, 1.7, 1.6, 1});
      std::printf("%-20s %2d rounds: %4.1f %% covered\n", noise.name, rounds, 100 * result.coverage);
      EXPECT_GE(result.coverage, kLeastCoverage) << noise.name << ", " << rounds << " rounds";
      EXPECT_LE(result.coverage, kMostCoverage) << noise.name << ", " << rounds << " rounds";
    }
  }
}

}  // namespace
}  // namespace mptune::tuner

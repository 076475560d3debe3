#include "tests/support/simulated_runner.h"

#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>

#include "planner/plan/file/plan_file.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "tuner/trial/series_rounds.h"

namespace mptune::testing {

using tuner::Interrupted;
using tuner::Measured;
using tuner::OutOfMemory;
using tuner::Series;
using tuner::TimedOut;
using tuner::Trial;

namespace {

std::uint64_t mix(std::uint64_t seed, const std::string& text) {
  std::uint64_t hash = 14695981039346656037ull ^ (seed * 0x9E3779B97F4A7C15ull);
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

// Box-Muller on the engine's bits: std::normal_distribution differs between standard libraries.
double gaussian(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto uniform = [&] { return (static_cast<double>(engine() >> 11) + 0.5) * 0x1.0p-53; };
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * 3.14159265358979323846 * uniform());
}

std::optional<OutOfMemory> over_cap(const Plan& plan, const Prediction& prediction, const std::vector<std::int64_t>& caps) {
  for (std::size_t d = 0; d < prediction.peak_bytes.size() && d < caps.size(); ++d) {
    if (caps[d] <= 0 || prediction.peak_bytes[d] <= caps[d]) continue;
    return OutOfMemory{plan.devices[d], prediction.peak_bytes[d], caps[d]};
  }
  return std::nullopt;
}

}  // namespace

SimulatedRunner::SimulatedRunner(CostModel cost, Options options) : cost_(std::move(cost)), options_(std::move(options)) {}

double SimulatedRunner::truth(const Plan& plan) const {
  const double error = options_.model_error * gaussian(mix(options_.seed, plan_key(plan)));
  return predict(plan, CostModel(cost_.profile(), plan)).step_s * std::exp(error);
}

std::vector<Trial> SimulatedRunner::run(const Series& series) {
  std::vector<Trial> trials;
  std::vector<double> truths;
  for (const Series::Entry& entry : series.entries) {
    Trial& trial = trials.emplace_back();
    trial.name = entry.name;
    trial.plan = entry.plan;
    trial.plan_key = plan_key(entry.plan);
    trial.prediction = entry.prediction;
    const Prediction expected = predict(entry.plan, CostModel(cost_.profile(), entry.plan));
    truths.push_back(truth(entry.plan));
    if (auto excess = over_cap(entry.plan, expected, options_.memory_bytes))
      trial.outcome = *excess;
    else
      trial.outcome = Measured{{}, expected.peak_bytes, 1.0};
  }
  double now = options_.start_s;
  tuner::SeriesRounds rounds(series);
  const auto out_of_time = [&] { return now >= series.ends_s; };
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (!std::holds_alternative<Measured>(trials[i].outcome))
      rounds.leave(static_cast<int>(i));
    else if (!out_of_time())
      now += series.warm_up * truths[i];
  }
  const int count = static_cast<int>(trials.size());
  for (int round = 0; rounds.next_fits(now) && !out_of_time(); ++round) {
    const double began = now;
    for (int position = 0; position < count && !out_of_time(); ++position) {
      const int entry = tuner::entry_at(round, position, count);
      if (!rounds.takes_part(entry)) continue;
      const double noise = std::exp(options_.noise * gaussian(mix(options_.seed + 1, std::to_string(steps_))));
      const double drift = 1 + options_.drift_per_step * static_cast<double>(steps_);
      const Sample sample{truths[as_index(entry)] * noise * drift, round, position, now};
      std::get<Measured>(trials[as_index(entry)].outcome).step_s.values.push_back(sample);
      rounds.add(entry, sample);
      now += sample.value;
      ++steps_;
    }
    static_cast<void>(rounds.end_round(now, now - began));
  }
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const auto* measured = std::get_if<Measured>(&trials[i].outcome);
    if (measured == nullptr) continue;
    if (truths[i] > series.step_limit_s)
      trials[i].outcome = TimedOut{series.step_limit_s};
    else if (measured->step_s.empty() && out_of_time())
      trials[i].outcome = Interrupted{.out_of_time = true};
  }
  return trials;
}

}  // namespace mptune::testing

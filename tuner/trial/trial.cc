#include "tuner/trial/trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <random>
#include <utility>

#include "planner/plan_file.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"
#include "profiler/base/units.h"
#include "tuner/trial/series_rounds.h"

namespace mptune::tuner {
namespace {

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Match(Cases...) -> Match<Cases...>;

std::string out_of_memory_text(const OutOfMemory& outcome) {
  std::string text = "out of memory";
  if (!outcome.device.empty()) text += " on " + outcome.device;
  if (outcome.requested_bytes > 0) text += ": " + format_bytes(outcome.requested_bytes) + " asked";
  if (outcome.requested_bytes > 0 && outcome.cap_bytes > 0) text += " with a cap of " + format_bytes(outcome.cap_bytes);
  return text;
}

std::string measured_text(const Measured& outcome) {
  if (outcome.step_s.empty()) return "measured without a sample";
  return "measured: " + format_seconds(median(outcome.step_s)) + " a step, " + std::to_string(outcome.step_s.size()) + " samples";
}

std::string timed_out_text(const TimedOut& outcome) {
  if (outcome.doing.empty()) return "timed out: a step took more than " + format_seconds(outcome.limit_s);
  return "timed out: " + outcome.doing + " took more than " + format_seconds(outcome.limit_s);
}

std::string crashed_text(const Crashed& outcome) {
  const std::string during = outcome.doing.empty() ? "" : " in " + outcome.doing;
  if (was_killed(outcome)) return "killed (signal 9), by another program or for lack of memory" + during;
  if (outcome.signal != 0) return "crashed by signal " + std::to_string(outcome.signal) + during;
  return "crashed with exit code " + std::to_string(outcome.exit_code) + during;
}

std::string with_reason(const std::string& text, const std::string& reason) {
  return reason.empty() ? text : text + ": " + reason;
}

template <std::size_t... I>
std::optional<Outcome> outcome_at(const std::string& name, std::index_sequence<I...> /*all*/) {
  std::optional<Outcome> found;
  ((name == kOutcomeNames[I] ? void(found.emplace(std::in_place_index<I>)) : void()), ...);
  return found;
}

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

bool was_killed(const Outcome& outcome) {
  const auto* crashed = std::get_if<Crashed>(&outcome);
  return crashed != nullptr && crashed->signal == SIGKILL;
}

std::string outcome_class(const Outcome& outcome) {
  return kOutcomeNames[outcome.index()];
}

std::optional<Outcome> outcome_named(const std::string& name) {
  return outcome_at(name, std::make_index_sequence<kOutcomeNames.size()>());
}

std::string outcome_text(const Outcome& outcome) {
  return std::visit(Match{
                        [](const Measured& o) { return measured_text(o); },
                        [](const OutOfMemory& o) { return out_of_memory_text(o); },
                        [](const TimedOut& o) { return timed_out_text(o); },
                        [](const Crashed& o) { return crashed_text(o); },
                        [](const WrongResult& o) { return with_reason("wrong result", o.reason); },
                        [](const NonFinite&) { return std::string("the loss is not finite"); },
                        [](const Infeasible& o) { return with_reason("infeasible", o.reason); },
                        [](const Interrupted&) { return std::string("interrupted"); },
                        [](const Environment& o) { return with_reason("the machine failed", o.reason); },
                    },
                    outcome);
}

std::vector<std::int64_t> peak_bytes_of(const Trial& trial) {
  const auto* measured = std::get_if<Measured>(&trial.outcome);
  if (measured == nullptr) return {};
  std::vector<std::int64_t> peaks = measured->peak_bytes;
  for (std::size_t d = 0; d < peaks.size() && d < trial.plan.devices.size(); ++d) {
    if (device_kind(trial.plan.devices[d]) != DeviceSpec::Kind::sleep || !trial.prediction || d >= trial.prediction->peak_bytes.size())
      continue;
    peaks[d] = trial.prediction->peak_bytes[d];
  }
  return peaks;
}

int entry_at(int round, int position, int count) {
  return round % 2 == 0 ? position : count - 1 - position;
}

int rounds_wanted(const Series& series, int disturbed) {
  return series.rounds + std::min(disturbed, series.rounds);
}

bool round_fits(const Series& series, int round, double now_s, double longest_round_s, int disturbed) {
  return round < rounds_wanted(series, disturbed) && (round == 0 || now_s + longest_round_s <= series.budget_s);
}

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
  SeriesRounds rounds(series);
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
      const int entry = entry_at(round, position, count);
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

}  // namespace mptune::tuner

#include "tuner/study/explore/trial_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/parallelism.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/index.h"

namespace mptune::tuner {
namespace {

// Weight of the assumed model error, in trials.
constexpr double kPriorTrials = 2;
constexpr double kSigmasGranted = 2;

/// Prediction errors and results of the trials of one kind.
struct KindState {
  std::vector<double> errors;  // logarithms of measured over predicted
  double best_s = std::numeric_limits<double>::infinity();
  int since_best = 0;

  [[nodiscard]] double correction() const { return errors.empty() ? 0 : median(errors); }
};

struct State {
  std::array<KindState, planner::kParallelisms.size()> kinds;
  double correction = 0;  // over all kinds, for a kind without a trial
  double sigma = 0;

  [[nodiscard]] double correction_of(const KindState& kind) const { return kind.errors.empty() ? correction : kind.correction(); }
};

std::size_t index_of(const Plan& plan) {
  return as_index(planner::parallelism_of(plan));
}

void observe_one(State& state, const Trial& trial) {
  KindState& kind = state.kinds[index_of(trial.plan)];
  const auto* measured = std::get_if<Measured>(&trial.outcome);
  if (measured == nullptr || measured->step_s.empty()) {
    ++kind.since_best;
    return;
  }
  const double step = median(measured->step_s);
  if (trial.prediction && trial.prediction->step_s > 0 && step > 0) kind.errors.push_back(std::log(step / trial.prediction->step_s));
  kind.since_best = step < kind.best_s ? 0 : kind.since_best + 1;
  kind.best_s = std::min(kind.best_s, step);
}

State state_of(const std::vector<Trial>& seen, double model_error) {
  State state;
  for (const Trial& trial : seen) observe_one(state, trial);
  std::vector<double> all;
  double squares = kPriorTrials * model_error * model_error;
  double degrees = kPriorTrials;
  for (const KindState& kind : state.kinds) {
    all.insert(all.end(), kind.errors.begin(), kind.errors.end());
    for (const double error : kind.errors) squares += std::pow(error - kind.correction(), 2);
    degrees += std::max(0.0, static_cast<double>(kind.errors.size()) - 1);
  }
  if (!all.empty()) state.correction = median(all);
  state.sigma = std::sqrt(squares / degrees);
  return state;
}

int most_samples(const Plan& plan) {
  return *std::max_element(plan.microbatch_sizes.begin(), plan.microbatch_sizes.end());
}

bool needs_at_least(const Plan& plan, const Plan& other) {
  if (plan.devices != other.devices || plan.stages != other.stages) return false;
  for (int stage = 0; stage < plan.num_stages(); ++stage)
    if (planner::most_in_flight(plan, stage) * most_samples(plan) < planner::most_in_flight(other, stage) * most_samples(other))
      return false;
  return most_samples(plan) >= most_samples(other);
}

}  // namespace

TrialSearch::TrialSearch(std::vector<Candidate> ranked, Rules rules) : ranked_(std::move(ranked)), rules_(rules) {
  for (const Candidate& candidate : ranked_) keys_.push_back(plan_key(candidate.plan));
}

bool TrialSearch::tried(const std::string& key) const {
  return std::any_of(seen_.begin(), seen_.end(), [&](const Trial& trial) { return trial.plan_key == key; });
}

bool TrialSearch::forbidden(const Plan& plan) const {
  return std::any_of(seen_.begin(), seen_.end(), [&](const Trial& trial) {
    return std::holds_alternative<OutOfMemory>(trial.outcome) && needs_at_least(plan, trial.plan);
  });
}

std::optional<Candidate> TrialSearch::next() {
  if (static_cast<int>(seen_.size()) >= rules_.most_trials) {
    stop_reason_ = "the largest number of trials is reached";
    return std::nullopt;
  }
  const State state = state_of(seen_, rules_.model_error);
  const double granted = kSigmasGranted * state.sigma;
  const Candidate* best = nullptr;
  double best_score = std::numeric_limits<double>::infinity();
  double best_corrected = best_score;
  bool any_untried = false;
  bool any_patience_lost = false;
  for (std::size_t i = 0; i < ranked_.size(); ++i) {
    if (tried(keys_[i]) || forbidden(ranked_[i].plan)) continue;
    any_untried = true;
    const KindState& kind = state.kinds[index_of(ranked_[i].plan)];
    // A kind that was never measured has a score of zero and is tried first; predictions break the tie.
    const double corrected = ranked_[i].prediction.step_s * std::exp(state.correction_of(kind));
    const double score = corrected / kind.best_s;
    if (score * std::exp(-granted) >= 1 - rules_.target_gap) continue;
    if (kind.since_best >= rules_.patience) {
      any_patience_lost = true;
      continue;
    }
    if (best != nullptr && (score > best_score || (score == best_score && corrected >= best_corrected))) continue;
    best = &ranked_[i];
    best_score = score;
    best_corrected = corrected;
  }
  if (best != nullptr) return *best;
  if (!any_untried)
    stop_reason_ = "every plan worth a trial was tried";
  else if (any_patience_lost)
    stop_reason_ = std::to_string(rules_.patience) + " trials in a row improved nothing";
  else
    stop_reason_ = "no untried plan can be faster by more than the target";
  return std::nullopt;
}

void TrialSearch::observe(const Trial& trial) {
  seen_.push_back(trial);
}

void TrialSearch::predict_again(const std::function<std::optional<Prediction>(const Plan&)>& prediction_of) {
  for (Candidate& candidate : ranked_)
    if (auto prediction = prediction_of(candidate.plan)) candidate.prediction = *std::move(prediction);
  for (Trial& trial : seen_)
    if (auto prediction = prediction_of(trial.plan)) trial.prediction = std::move(prediction);
}

void TrialSearch::add(const std::vector<Candidate>& ranked) {
  for (const Candidate& candidate : ranked) {
    std::string key = plan_key(candidate.plan);
    if (std::ranges::find(keys_, key) != keys_.end()) continue;
    ranked_.push_back(candidate);
    keys_.push_back(std::move(key));
  }
}

}  // namespace mptune::tuner

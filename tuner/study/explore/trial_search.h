#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/search/space/search_space.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// Proposes what to try next, best first by corrected prediction. It is pure: the same observations give the same proposals.
class TrialSearch {
 public:
  struct Rules {
    int most_trials = 1000;
    double target_gap = 0.01;   ///< a plan is worth a trial if it may beat the best measured of its kind by this share
    int patience = 8;           ///< trials in a row without improvement after which a kind is given up
    double model_error = 0.05;  ///< sigma of the logarithm of measured over predicted that is assumed before there are trials
  };
  TrialSearch(std::vector<Candidate> ranked, Rules rules);

  /// Returns the untried plan with the smallest corrected prediction relative to the best measured plan of its kind (one device, data
  /// parallel, pipeline, hybrid). Predictions are corrected by the ratio of measured to predicted steps of the tried plans of that kind. A
  /// plan is proposed only if it can still win: if it would with its corrected prediction less two sigma of the prediction errors so far.
  /// Plans are skipped if another one with the same cuts and no more samples in flight ran out of memory. Empty if no plan can win;
  /// `stop_reason` then says why.
  [[nodiscard]] std::optional<Candidate> next();
  void observe(const Trial& trial);
  /// Replaces the predictions of all plans, tried or not. A plan for which `prediction_of` returns nothing keeps its prediction.
  void predict_again(const std::function<std::optional<Prediction>(const Plan&)>& prediction_of);
  /// Adds further plans to choose from; those that are known already are left out.
  void add(const std::vector<Candidate>& ranked);
  [[nodiscard]] const std::string& stop_reason() const { return stop_reason_; }

 private:
  [[nodiscard]] bool tried(const std::string& plan_key) const;
  [[nodiscard]] bool forbidden(const Plan& plan) const;

  std::vector<Candidate> ranked_;
  std::vector<std::string> keys_;  ///< plan keys of ranked_
  Rules rules_;
  std::vector<Trial> seen_;
  std::string stop_reason_;
};

}  // namespace mptune::tuner

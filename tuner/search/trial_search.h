#pragma once

#include <optional>
#include <vector>

#include "mptune/planner/search/search.h"
#include "mptune/tuner/trial/trial.h"

namespace mptune {

/// What to try next: best-first by corrected prediction. Pure; the same observations give the same proposals.
class TrialSearch {
 public:
  struct Rules {
    int most_trials = 1000;
    double target_gap = 0.01;  ///< stop when no untried plan's corrected prediction is better than the best measured by this share
    int patience = 8;          ///< stop after so many trials in a row that did not improve the best of any kind
  };
  TrialSearch(std::vector<Candidate> ranked, Rules rules);

  /// The untried plan with the best prediction, corrected by measured over predicted of the tried ones of its kind (one device, data parallel,
  /// pipeline); plans that memory forbids, by an OutOfMemory seen at the same cuts and a larger micro-batch count in flight, are skipped.
  /// Empty: nothing left that could win, `stop_reason` says why.
  [[nodiscard]] std::optional<Candidate> next();
  void observe(const Trial& trial);
  [[nodiscard]] const std::string& stop_reason() const { return stop_reason_; }

 private:
  std::vector<Candidate> ranked_;
  Rules rules_;
  std::vector<Trial> seen_;
  std::string stop_reason_;
};

}  // namespace mptune

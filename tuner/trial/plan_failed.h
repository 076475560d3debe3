#pragma once

#include <utility>

#include "profiler/base/error.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// Ends a command because the one plan that it runs failed. The outcome is for decisions, the Error for people.
class PlanFailed : public Error {
 public:
  PlanFailed(const Error& error, Outcome outcome) : Error(error), outcome_(std::move(outcome)) {}
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }

 private:
  Outcome outcome_;
};

}  // namespace mptune::tuner

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "planner/search/baselines.h"
#include "planner/search/search.h"
#include "profiler/base/error.h"
#include "tests/support/simulated_runner.h"
#include "tests/support/tuner_fakes.h"
#include "tuner/study/tune.h"
#include "tuner/worker/host/interrupt.h"
#include "tuner/worker/host/worker_process.h"

namespace mptune::tuner {

/// A study, a simulated machine and a clock that only its steps move.
class Tune : public ::testing::Test {
 protected:
  void SetUp() override { interrupt_flag() = 0; }
  void TearDown() override { interrupt_flag() = 0; }

  void build(const testing::FakeMachine& machine, testing::SimulatedRunner::Options simulated, double start_s = 1) {
    simulated.start_s = start_s;
    machine_ = machine;
    profile_ = testing::fake_profile(machine);
    cost_ = std::make_unique<CostModel>(profile_);
    inner_ = std::make_unique<testing::SimulatedRunner>(*cost_, simulated);
    runner_ = std::make_unique<testing::ClockedRunner>(*inner_, now_, start_s);
    options_.space = testing::fake_space(machine);
    options_.budget_s = 150;
    services_.measure = [this](const PhaseTime& time) {
      ++measured_;
      now_ += time.share_s;
      return profile_;
    };
    services_.record = [this](const Plan&, const std::string& name) {
      recorded_.push_back(name);
      now_ += 2;
    };
    services_.runner = runner_.get();
    services_.clock = [this] { return now_; };
    services_.progress = [this](const std::string&, double fraction) {
      EXPECT_GE(fraction, 0);
      EXPECT_LE(fraction, 1);
      ++told_;
    };
  }

  TuneResult run(Study::Open mode = Study::Open::create) {
    Study study(folder_ / "study", mode);
    return tune(options_, study, services_);
  }

  Error error_of_run(Study::Open mode = Study::Open::create) {
    try {
      static_cast<void>(run(mode));
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error";
    return Error("", "", "", ExitCode::done);
  }

  // The fastest plan that the runner holds for true, among the simulated ones and the baselines.
  double true_best() const {
    double best = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : search_plans(options_.space, *cost_).ranked) best = std::min(best, inner_->truth(candidate.plan));
    for (const planner::NamedPlan& baseline : planner::baseline_plans(options_.space, machine_.layers))
      best = std::min(best, inner_->truth(baseline.plan));
    return best;
  }

  testing::TemporaryFolder folder_;
  testing::FakeMachine machine_;
  Profile profile_;
  std::unique_ptr<CostModel> cost_;
  std::unique_ptr<testing::SimulatedRunner> inner_;
  std::unique_ptr<testing::ClockedRunner> runner_;
  TuneOptions options_;
  TuneServices services_;
  double now_ = 100;
  int measured_ = 0;
  int told_ = 0;
  std::vector<std::string> recorded_;
};

// Steps of about half a second, as a small ResNet on one core.
inline testing::FakeMachine half_second_machine() {
  testing::FakeMachine machine;
  machine.base_s = 0.0015;
  machine.fixed_s = 0.001;
  return machine;
}

}  // namespace mptune::tuner

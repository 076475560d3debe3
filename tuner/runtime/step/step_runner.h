#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tuner/runtime/graph/bound_graph.h"
#include "tuner/runtime/graph/tied_weights.h"
#include "tuner/runtime/ranks/rank_step.h"
#include "tuner/runtime/step/host_inputs.h"
#include "tuner/runtime/step/parameter_updates.h"
#include "tuner/runtime/step/replica_sums.h"
#include "tuner/runtime/step/row_runner.h"
#include "tuner/runtime/step/running_step.h"

namespace mptune::tuner {

/// Takes steps through a bound graph. One thread drives it; `graph` outlives it.
///
///     driving thread    split the batch │ stage inputs, receive from other ranks            │ loss
///     cpu:0                             │ update, refresh │ actions of row 0 │ sums         │
///     cpu:1                             │ update, refresh │ actions of row 1 │ sums         │
///                                         ParameterUpdates   RowRunner          ReplicaSums    (RankStep: between ranks)
class StepRunner {
 public:
  StepRunner(BoundGraph& graph, std::uint64_t seed);

  /// Does what Pipeline::step() does, for a batch of at least one sample and at most the plan's number.
  StepResult run(const Tensors& inputs, const at::Tensor& target, Accumulate accumulate);
  /// Returns the outputs of the last stage in evaluation mode, on the host, by micro-batch that has samples. It takes as many samples as
  /// run().
  [[nodiscard]] std::vector<Tensors> evaluate(const Tensors& inputs);
  /// See Pipeline::on_stages().
  void on_stages(const std::function<void(int stage)>& work) { updates_.on_stages(work); }
  /// See Pipeline::update_with_next_step().
  void update_with_next_step(std::function<void(int stage)> work) { updates_.with_next_step(std::move(work)); }
  /// See Pipeline::finish_update().
  void finish_update() { updates_.finish(); }
  /// See Pipeline::record().
  void record(HostCollector* collector, TagSink* gpus);
  [[nodiscard]] std::int64_t steps() const { return step_.number; }
  void set_steps(std::int64_t steps) { step_.number = steps; }
  /// Adds up what all ranks give, element by element; all ranks call this. Without ranks, returns what is given.
  [[nodiscard]] std::vector<double> sum_over_ranks(const std::vector<double>& own) { return ranks_.sum_of(own); }
  /// Returns on every rank, in host memory, the tensors of the rank that has the stage's first replica. All ranks call this; the others
  /// give none. Without ranks, returns what is given.
  [[nodiscard]] Tensors of_stage_everywhere(int stage, const Tensors& own);
  /// See Pipeline::on_first_rank().
  [[nodiscard]] std::vector<Tensors> on_first_rank(const Tensors& own) { return ranks_.on_first_rank(own); }
  /// See Pipeline::from_first_rank().
  [[nodiscard]] Tensors from_first_rank(const Tensors& own) { return ranks_.from_first_rank(own); }
  /// See Pipeline::failed_at().
  [[nodiscard]] const std::string& failed_at() const { return step_.failed_at; }

 private:
  [[nodiscard]] Tensors on_host(const Tensors& inputs) const;
  /// Runs `work` on all devices while inputs are staged; rethrows the first error when all have recovered.
  void run_devices(bool evaluates, const std::function<void(int device)>& work);
  [[nodiscard]] double take_loss();

  RunningStep step_;
  const TiedWeights tied_;
  HostInputs inputs_;
  RankStep ranks_;
  ParameterUpdates updates_;
  ReplicaSums sums_;
  RowRunner rows_;
};

}  // namespace mptune::tuner

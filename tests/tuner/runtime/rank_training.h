#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profiler/device/gpu_communicator.h"
#include "tests/support/thread_ranks.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {

constexpr int kRankBatch = 10;

struct RankChoices {
  std::string schedule;
  int stages = 2;  ///< per virtual one
  int microbatches = 1;
  std::vector<int> replicas;  ///< per stage, empty: one each
  bool recompute = false;
};

/// Nothing where the planner refuses.
[[nodiscard]] std::optional<Plan> rank_plan(const RankChoices& c, int layers);
/// The plan with device i on rank `rank_of[i]`.
[[nodiscard]] Plan on_ranks(Plan plan, const std::vector<int>& rank_of);
/// Devices of such a plan as one of the ranks has them, spread over the cores there are.
[[nodiscard]] std::vector<std::shared_ptr<Device>> devices_on(const Plan& plan, const RankGroup& group);
[[nodiscard]] Model with_mean_square(const Model& model);

[[nodiscard]] std::vector<RankChoices> rank_choices();
[[nodiscard]] std::vector<RankChoices> replicated_choices();

// Sums of a few floats in another order differ by some 1e-7 of their terms; three steps carry that on.
constexpr double kRounding = 1e-5;

/// Trains over ranks, device i of the plan on rank `rank_of[i]`: expects losses, gradients, buffers and outputs of one process, bit for
/// bit. `connector`: between devices of different ranks.
void expect_equal_over_ranks(const Model& model, const Plan& plan, const std::vector<int>& rank_of,
                             const profiler::GpuConnector* connector = nullptr);
/// The same with replicas on devices of two kinds in turn, which the first one's rank trains alone.
void expect_equal_with_unlike_devices(const Model& model, const Plan& plan, const std::vector<int>& rank_of,
                                      const profiler::GpuConnector* connector = nullptr);
/// With Reduce::all_reduce: within rounding, and the same bits wherever several ranks have them.
void expect_close_over_ranks(const Model& model, const Plan& plan, const std::vector<int>& rank_of,
                             const profiler::GpuConnector* connector = nullptr);

/// Against the same devices in one process: bit for bit where the order of sums is the same and GPUs round as one thread.
void expect_gpus_over_ranks(const Model& model, const Plan& plan, const std::vector<int>& rank_of, Reduce reduce);

/// Devices of other ranks are connected by `connector`.
using RankCheck = void (*)(const Model&, const Plan&, const std::vector<int>& rank_of, const profiler::GpuConnector* connector);
/// Every `stride`th possible plan, its devices divided over ranks in three ways.
void check_ranks(const Model& model, int stride, int first, const std::vector<RankChoices>& all = rank_choices(),
                 RankCheck check = expect_equal_over_ranks, const profiler::GpuConnector* connector = nullptr);

}  // namespace mptune::testing

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/device/device.h"
#include "profiler/model/layers/model.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {

/// What the un-pipelined loop computes: every micro-batch through the whole model, gradients kept apart.
struct ReferenceStep {
  std::vector<std::vector<at::Tensor>> gradients;  ///< [micro-batch][parameter]
  double loss = 0;
  std::vector<at::Tensor> buffers;  ///< after the step's statistics were committed
};

[[nodiscard]] ReferenceStep run_reference(const std::string& model, const std::string& input, const Batch& batch,
                                          const std::vector<int>& sizes);
/// Runs forward and loss of a micro-batch, in whatever mode the test wants.
using RunForward = std::function<at::Tensor(const std::function<at::Tensor()>& forward)>;
/// `scale` multiplies the gradients, not the loss.
[[nodiscard]] ReferenceStep run_reference(Model model, const Batch& batch, const std::vector<int>& sizes, const RunForward& run = nullptr,
                                          double scale = 1);

/// Autocast of a test's own, so that the product's is compared with another.
class AutocastByHand {
 public:
  AutocastByHand(at::DeviceType device, at::ScalarType type);
  ~AutocastByHand();
  AutocastByHand(const AutocastByHand&) = delete;
  AutocastByHand& operator=(const AutocastByHand&) = delete;

 private:
  at::DeviceType device_;
  at::ScalarType before_;
};

/// The micro-batches' gradients summed in the plan's own order: per stage and replica in the order of its backwards, then replicas
/// by index. Of a split backward, the order of the weight gradients counts for matrices, that of the input gradients for vectors.
[[nodiscard]] std::vector<at::Tensor> sum_in_plan_order(const ReferenceStep& reference, const Plan& plan, const Model& model);

/// Of all parameters, in the model's order.
[[nodiscard]] std::vector<at::Tensor> gradients_of(const Pipeline& pipeline);

/// Devices named as in the plan, one intra-op thread each, spread over the cores there are: numerics need no cores of their own.
[[nodiscard]] std::vector<std::shared_ptr<Device>> shared_core_devices(const Plan& plan);
[[nodiscard]] std::vector<std::string> device_names(int count);

/// A plan of every schedule of several micro-batches on two devices, as far as `layers` suffice. Every second one lets idle devices help.
[[nodiscard]] std::vector<Plan> two_device_plans(int layers, int batch, int microbatches, bool recompute);

/// Largest difference of any tensor relative to its largest value.
[[nodiscard]] double relative_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);

}  // namespace mptune::testing

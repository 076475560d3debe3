#pragma once

#include "profiler/base/hardware.h"
#include "profiler/base/optimizer_choice.h"
#include "profiler/model/layers/model.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// Returns the profile that a host with `hardware` would have, without running the model: each layer's forward and backward are called on
/// an estimated device (estimated_device.h), at the micro-batch sizes that measure_profile() takes. Memory is that of the tensors that
/// autograd saves. Bytes over the data sheet's rate are the time of an update of the parameters, of sums of gradients, and of copies
/// between two devices. What is not known is left out: the host's time for an action and a step, and memory that libraries keep. Sets
/// Profile::estimated. Throws Error for a model whose operators need values, and for one that computes under autocast.
[[nodiscard]] Profile estimate_profile(const Model& model, const Batch& batch, int samples, const OptimizerChoice& optimizer,
                                       const Hardware& hardware);

}  // namespace mptune::profiler

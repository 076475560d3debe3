#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mptune/profiler/base/device_spec.h"
#include "mptune/profiler/device/device_list.h"
#include "mptune/profiler/model/model.h"
#include "mptune/profiler/trace/profile.h"

namespace mptune {

struct MeasureOptions {
  std::vector<DeviceSpec> devices;  ///< at least one, all of one kind
  std::string whole_machine;        ///< device of all cores, "" for none
  LinkThrottle link;
  std::vector<std::int64_t> memory_bytes;  ///< caps as devices, for the profile only: measuring is not capped
  int batch = 0;
  std::string optimizer = "sgd";
  double budget_s = 60;
  std::function<void(const std::string& what, double fraction)> progress;  ///< may be empty
};

/// Micro-batch sizes that are measured for a batch: powers of two and the batch.
[[nodiscard]] std::vector<int> measured_sizes(int batch);

/// Measures layer costs at several micro-batch sizes, alone and with the other devices busy, the costs of links, actions, steps, optimizer
/// and reduction. Sizes at which the model can't run (batch norm over one value) are left out. Sleeping devices are given the costs of the
/// first core. Needs install_cpu_accounting() for bytes. Layers use at most about the budget, but at least one counted pass per
/// size; links take about 0.2 s per ordered pair of CPU devices besides, throttled ones up to a few seconds.
/// Throws Error if the model can't run at all or a device can't be had. Blocks; the caller's thread is not moved. Requires: a device.
[[nodiscard]] Profile measure_profile(const Model& model, const Batch& batch, const MeasureOptions& options);

/// The layers of a profile, without costs.
[[nodiscard]] std::vector<ProfileLayer> describe_layers(const Model& model);

}  // namespace mptune

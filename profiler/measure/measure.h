#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "profiler/base/device_pool.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/optimizer_choice.h"
#include "profiler/device/list/device_list.h"
#include "profiler/model/layers/model.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

struct MeasureOptions {
  std::vector<DeviceSpec> devices;  ///< at least one, all of one kind; with pools, those of measured_devices(), some of which overlap
  std::vector<DevicePool> pools;    ///< whose division is to be searched
  std::string whole_machine;        ///< name of the device with all cores; "" for none
  LinkThrottle link;
  std::vector<std::int64_t> memory_bytes;  ///< caps by device, copied to the profile; measuring itself is not capped
  int batch = 0;
  OptimizerChoice optimizer;
  bool channels_last = false;     ///< also measures layers in channels_last, if the model has convolutions
  bool replaced_kernels = false;  ///< also measures layers of CPU devices with slow kernels replaced, at the sizes that would take them
  std::vector<int> threads;       ///< also measures CPU devices with more cores at these numbers of intra-op threads
  double budget_s = 60;
  /// To keep the budget, leaves out sizes (the smallest two and the largest last), then other variants and links, with warnings.
  bool keeps_budget = false;
  double most_s = std::numeric_limits<double>::infinity();                 ///< what the smallest sizes may take where it keeps the budget
  std::function<void(int samples, double seconds)> timed;                  ///< called after the first pass of each size; may be empty
  std::function<void(const std::string& what, double fraction)> progress;  ///< may be empty
  std::function<void(const std::string& warning)> warn;                    ///< told what the profile lacks and why, a clause; may be empty
};

/// Returns what is measured so that the pools can be divided in any way: for each pool what mptune::measured_devices() returns, and those
/// of `devices` that are in no pool.
[[nodiscard]] std::vector<DeviceSpec> measured_devices(const std::vector<DeviceSpec>& devices, const std::vector<DevicePool>& pools);

/// Returns the micro-batch sizes to measure for a batch: powers of two and the batch. If `samples` limits them, they go from its least to
/// its most, each twice the one before.
[[nodiscard]] std::vector<int> measured_sizes(int batch, const SampleRange& samples = {});

/// Measures a profile: layer costs at several micro-batch sizes, alone and with the other devices busy, and the costs of links, actions,
/// steps, optimizer and reduction. Blocks; the calling thread keeps its cores.
/// - Sizes at which the model can't run (batch norm over one value) are left out.
/// - Sleeping devices get the costs of the first core. Bytes need install_cpu_accounting().
/// - Layers take about the budget, but at least one counted pass per size. Execution variants share it by their work.
/// - To keep the budget, sizes are left out, first those between the smallest two and the largest (by_worth); for the others, the warm-up
///   counts where there is no time for more. Other variants are left out, too, and all cores are measured at small sizes if the batch takes
///   too long. Links that there was no time for are assumed to be as fast as the first. Only the smallest size of each class of devices,
///   one link, and the host copies of one device are measured in any case. A pass over one size that has begun ends: nothing else exceeds
///   the budget.
/// - A memory format that the model can't run in is left out and warned of.
/// - With slow kernels replaced, only layers at sizes that have slow kernels are measured; the other costs are those without replacing. If
///   no layer has any, there is no such variant.
/// - Layers whose cost per sample jumps take some passes more (layer_operators.h).
/// - A device of a pool is measured busy beside devices of its size; the fingerprint names the pools.
/// - Links take another 0.2 s per ordered pair of CPU devices, throttled ones up to a few seconds.
/// Throws Error if the model can't run or a device is not available. Requires: at least one device.
[[nodiscard]] Profile measure_profile(const Model& model, const Batch& batch, const MeasureOptions& options);

}  // namespace mptune::profiler

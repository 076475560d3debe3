#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "profiler/base/memory_format.h"
#include "profiler/base/precision.h"
#include "profiler/base/sample_range.h"

namespace mptune {

/// What a device does with one micro-batch of one stage.
enum class ActionKind : char {
  forward = 'F',
  backward = 'B',         ///< gradients of inputs and weights
  backward_input = 'I',   ///< gradients of inputs
  backward_weight = 'W',  ///< gradients of weights
};

/// One entry of a device's list: "0F3" is stage 0, forward, micro-batch 3; "0W2-5" are the weight gradients of micro-batches 2 to 5, fused:
/// convolutions whose weight has at least as many elements as input and output gradient of a micro-batch run once for all of them.
struct Action {
  int stage = 0;
  ActionKind kind = ActionKind::forward;
  int microbatch = 0;
  int further = 0;  ///< weight gradients only: how many micro-batches after `microbatch` are fused with it
  [[nodiscard]] int last_microbatch() const { return microbatch + further; }
  bool operator==(const Action&) const = default;
};

/// Which activations of a stage are computed again in backward instead of saved.
struct Recompute {
  enum class Mode { none, all, some };
  Mode mode = Mode::none;
  std::vector<int> layers;        ///< mode some: layers of the model, ascending; neighbours are recomputed as one piece
  std::vector<int> microbatches;  ///< mode some: the micro-batches in which these layers are recomputed; empty: all
  bool operator==(const Recompute&) const = default;
};

/// A contiguous range of layers [first_layer, last_layer), run on `devices`: more than one are replicas that share the micro-batches
/// (micro-batch i goes to replica i mod R).
struct Stage {
  int first_layer = 0;
  int last_layer = 0;
  std::vector<int> devices;  ///< indices into Plan::devices
  Recompute recompute;
  bool offload = false;  ///< saved activations lie in host memory between forward and backward where that frees memory (plan/offload.h)
  bool operator==(const Stage&) const = default;
};

/// How a plan's layers compute. A memory format, a kernel or a number of threads other than the default rounds sums differently; help of
/// idle devices changes no bit (see is_exact). The un-pipelined loop that a plan is compared with computes in the same precision.
struct ExecutionOptions {
  MemoryFormat memory_format = MemoryFormat::contiguous;
  bool replace_slow_kernels = false;         ///< convolutions that LibTorch would compute by a slow kernel take another one
  bool idle_devices_help = false;            ///< CPU devices with nothing else to do compute weight gradients of any stage
  Precision precision = Precision::float32;  ///< precision of products; a search never chooses it
  std::vector<int> threads = {};             ///< intra-op threads by device of the plan, at most one per core; empty: one per core
  bool operator==(const ExecutionOptions&) const = default;
};

/// The schedule of a plan for which nobody names one.
inline constexpr const char* kDefaultSchedule = "1f1b";

/// All the runtime needs to execute a step, and nothing else.
struct Plan {
  std::vector<std::string> devices;          ///< names as the user writes them
  std::vector<int> microbatch_sizes;         ///< samples of each micro-batch of the global batch, in order
  std::vector<Stage> stages;                 ///< in order of their layers, covering the model
  std::string schedule;                      ///< a label: "1f1b"
  std::vector<std::vector<Action>> actions;  ///< a row per device, executed in order
  ExecutionOptions options;

  [[nodiscard]] int global_batch_size() const;
  [[nodiscard]] int num_microbatches() const { return static_cast<int>(microbatch_sizes.size()); }
  [[nodiscard]] int num_stages() const { return static_cast<int>(stages.size()); }
  bool operator==(const Plan&) const = default;
};

/// True if every gradient is bit-equal to that of the un-pipelined loop over the micro-batches, in the plan's order. Otherwise sums are
/// rounded differently. After a ReLU or a pooling that then decides differently, another memory format, kernel or number of threads changes
/// gradients by more.
[[nodiscard]] bool is_exact(const Plan& plan);
/// True if an action computes weight gradients of several micro-batches at once.
[[nodiscard]] bool fuses_weights(const Plan& plan);

/// Returns the index of the replica of `stage` that gets `microbatch`.
[[nodiscard]] int replica_of(const Stage& stage, int microbatch);
/// True if a stage has more than one device.
[[nodiscard]] bool has_replicas(const Plan& plan);
/// Returns the device (index into Plan::devices) that runs `microbatch` of `stage`.
[[nodiscard]] int device_of(const Stage& stage, int microbatch);
/// True if the stage recomputes any layer in `microbatch`.
[[nodiscard]] bool recomputes(const Recompute& recompute, int microbatch);
/// True if `layer` of the stage is computed again in the micro-batches that run any recomputation.
[[nodiscard]] bool recomputes_layer(const Recompute& recompute, int layer);
/// Returns the first layer of the stage's last recomputed piece if that piece reaches the stage's end, else `last_layer`. That piece is
/// computed again before the gradient of the stage's output is needed; earlier pieces wait for the gradients of the layers after them.
[[nodiscard]] int first_recomputed_early(const Stage& stage);

/// Returns `m` sizes that add up to `batch` and differ by at most one, larger ones first. Requires: 1 <= m <= batch.
[[nodiscard]] std::vector<int> split_evenly(int batch, int m);
/// Returns the fewest and the most micro-batches whose sizes split_evenly() keeps within `samples`: 1 and `batch` where `samples` allows
/// every size. Where no number is allowed, the first is larger than the second.
[[nodiscard]] std::pair<int, int> allowed_counts(const SampleRange& samples, int batch);
/// Returns micro-batches of `size` samples; the last one is smaller where `size` does not divide `batch`. Requires: 1 <= size <= batch.
[[nodiscard]] std::vector<int> split_by_size(int batch, int size);

/// Returns the first layers of all stages but the first, for `stages` ranges of (nearly) equal layer counts, longer ones first.
[[nodiscard]] std::vector<int> equal_cuts(int layers, int stages);

/// Checks everything a plan must satisfy that needs no schedule: layers covered in order by non-empty stages, devices known and distinct
/// within a stage, sizes positive, no more threads than cores. Throws Error (`where` is put into it) that names the first violation.
/// `layers` < 0 means that the number of layers is not known and is not checked.
void validate(const Plan& plan, int layers, const std::string& where);

}  // namespace mptune
